#include "engine/placement/halo_recomputation.hpp"

#include <algorithm>

#include "engine/placement/boundary_recomputation.hpp"

namespace atl {

namespace {

// Seconds until `bytes` from `from` have reached `to` when all ranks of both hosts send and receive
// as much at the same time.
double fetch_seconds(const Topology& topology, int from, int to, double bytes) {
  const Device& sender = topology.devices[static_cast<std::size_t>(from)];
  const Device& receiver = topology.devices[static_cast<std::size_t>(to)];
  double bytes_per_s = topology.link(from, to).bytes_per_s;
  if (sender.host != receiver.host) {
    const auto share = [&](int host, double card) {
      const auto ranks = std::ranges::count(topology.devices, host, &Device::host);
      return card / static_cast<double>(ranks);
    };
    bytes_per_s = std::min(
        {bytes_per_s,
         share(sender.host, topology.hosts[static_cast<std::size_t>(sender.host)].send_bytes_per_s),
         share(receiver.host,
               topology.hosts[static_cast<std::size_t>(receiver.host)].receive_bytes_per_s)});
  }
  return bytes / bytes_per_s + bytes * receiver.progress_s_per_byte;
}

}  // namespace

RecomputeSeconds recompute_seconds(const Device& device, std::span<const LayerConfig> layers,
                                   bool root_weight, std::int64_t rows) {
  const LayerConfig& first = layers[0];
  const LayerConfig& second = layers[1];
  // Rows are computed, normalised, and multiplied by their factors on the way to their places.
  const int passes = first.norm == Norm::kNone ? 2 : first.norm == Norm::kBatch ? 4 : 6;
  RecomputeSeconds seconds;
  seconds.first_layer =
      (root_weight ? 2 : 1) * gemm_seconds(device, rows, first.in, first.out) +
      elementwise_seconds(device, kFloatBytes * static_cast<double>(passes * rows * first.out));
  if (second.order == MultiplyOrder::kMultiplyFirst) {
    seconds.second_layer = gemm_seconds(device, rows, second.in, second.out);
  }
  return seconds;
}

Recomputation recomputation_by_cost(const EpochSetting& setting,
                                    std::span<const LayerStrategy> strategy) {
  const Topology& topology = setting.topology;
  const std::vector<LayerConfig> layers = planned_layers(setting.model, strategy);
  const LayerConfig& second = layers.at(1);
  const bool root = has_root_weight(setting.model.kind);
  const std::int64_t cols = second.order == MultiplyOrder::kMultiplyFirst ? second.out : second.in;
  const double row_bytes = mean_message_bytes(strategy[1].bits, cols);
  const int ranks = topology.ranks();
  Recomputation result(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    // All rows of a pair cost alike, so a pair stands for them.
    RecomputationProblem problem;
    problem.layers.resize(1);
    for (int owner = 0; owner < ranks; ++owner) {
      const std::int64_t rows =
          setting.partition
              .forward_rows[static_cast<std::size_t>(rank) * static_cast<std::size_t>(ranks) +
                            static_cast<std::size_t>(owner)];
      const RecomputeSeconds seconds =
          recompute_seconds(topology.devices[static_cast<std::size_t>(rank)], layers, root, rows);
      problem.layers[0].push_back(
          {.fetch_s = owner == rank ? 0
                                    : fetch_seconds(topology, owner, rank,
                                                    static_cast<double>(rows) * row_bytes),
           .recompute_s = seconds.first_layer + seconds.second_layer,
           .needed = rows > 0,
           .inputs = {}});
    }
    const RecomputationPlan plan = plan_recomputation(problem);
    for (int owner = 0; owner < ranks; ++owner) {
      if (plan.recompute[0][static_cast<std::size_t>(owner)] != 0) result.set(rank, owner);
    }
  }
  return result;
}

}  // namespace atl
