#include "engine/placement/cost_model.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "kernels/wire.hpp"

namespace atl {

PhaseCorrections::PhaseCorrections(int ranks, int layers)
    : layers_(layers),
      factors_(static_cast<std::size_t>(ranks) * static_cast<std::size_t>(2 * (layers + 1)) *
                   kPhaseNames.size(),
               1.0) {}

double gemm_seconds(const Device& device, std::int64_t rows, std::int64_t in, std::int64_t out) {
  // Rates are measured for square weights: one of as many elements stands for this one.
  const auto elements = static_cast<double>(in) * static_cast<double>(out);
  const auto side = static_cast<std::int64_t>(std::lround(std::sqrt(elements)));
  return 2 * static_cast<double>(rows) * elements / rate_at(device.gemm_flop_per_s, side);
}

double spmm_seconds(const Device& device, std::int64_t edges, std::int64_t rows,
                    std::int64_t cols) {
  const double bytes = 4 * static_cast<double>(edges + rows) * static_cast<double>(cols);
  return bytes / rate_at(device.spmm_bytes_per_s, cols);
}

double elementwise_seconds(const Device& device, double bytes) {
  return bytes / device.elementwise_bytes_per_s;
}

double quantize_seconds(const Device& device, std::int64_t rows, std::int64_t cols) {
  return 4 * static_cast<double>(rows) * static_cast<double>(cols) / device.quantize_bytes_per_s;
}

double mean_message_bytes(double bits, std::int64_t cols) {
  const auto* above = std::lower_bound(kWireBits.begin(), kWireBits.end(), bits);
  ATOLL_ASSERT(above != kWireBits.end());
  // Exact messages carry padding, those of 32 bits among others don't.
  const std::int64_t sent = bits == kWireBits.back() ? padded_columns(cols) : cols;
  const auto bytes = [&](int width) {
    return static_cast<double>(wire_row_bytes(width, sent, DType::kF32));
  };
  if (*above == bits || above == kWireBits.begin()) return bytes(*above);
  const int below = *(above - 1);
  const double share = (bits - below) / (*above - below);
  return bytes(below) + share * (bytes(*above) - bytes(below));
}

double all_reduce_seconds(const Topology& topology, double bytes) {
  const int ranks = topology.ranks();
  if (ranks == 1) return 0;
  const double block = bytes / ranks;
  std::vector<double> sent(topology.hosts.size(), 0);  // towards other hosts; received is equal
  double slowest = 0;
  for (int from = 0; from < ranks; ++from) {
    const auto host =
        static_cast<std::size_t>(topology.devices[static_cast<std::size_t>(from)].host);
    for (int to = 0; to < ranks; ++to) {
      if (to == from) continue;
      const Link& link = topology.link(from, to);
      slowest = std::max(slowest, link.latency_s + block / link.bytes_per_s);
      if (topology.devices[static_cast<std::size_t>(to)].host != static_cast<int>(host)) {
        sent[host] += block;
      }
    }
  }
  for (std::size_t h = 0; h < sent.size(); ++h) {
    const Host& host = topology.hosts[h];
    slowest =
        std::max(slowest, sent[h] / std::min(host.send_bytes_per_s, host.receive_bytes_per_s));
  }
  return 2 * slowest;
}

}  // namespace atl
