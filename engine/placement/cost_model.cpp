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

double mean_message_bytes(double bits, std::int64_t cols, bool exact) {
  const auto* above = std::lower_bound(kWireBits.begin(), kWireBits.end(), bits);
  ATOLL_ASSERT(above != kWireBits.end());
  const std::int64_t sent = exact && bits == kWireBits.back() ? padded_columns(cols) : cols;
  const auto bytes = [&](int wire_bits) {
    return static_cast<double>(wire_row_bytes(wire_bits, sent, DType::kF32));
  };
  if (*above == bits || above == kWireBits.begin()) return bytes(*above);
  const int below = *(above - 1);
  const double share = (bits - below) / (*above - below);
  return bytes(below) + share * (bytes(*above) - bytes(below));
}

}  // namespace atl
