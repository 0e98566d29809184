#include "engine/placement/halo_recomputation.hpp"

#include <algorithm>

namespace atl {

namespace {

// Seconds until `bytes` from `from` have reached `to` when all ranks of both hosts send and receive
// as much at the same time.
double fetch_seconds(const Topology& topology, int from, int to, double bytes) {
  const Device& sender = topology.device(from);
  const Device& receiver = topology.device(to);
  double bytes_per_s = topology.link(from, to).bytes_per_s;
  if (sender.host != receiver.host) {
    const auto share = [&](int host, double card) {
      const auto ranks = std::ranges::count(topology.devices, host, &Device::host);
      return card / static_cast<double>(ranks);
    };
    bytes_per_s =
        std::min({bytes_per_s, share(sender.host, topology.host_of(from).send_bytes_per_s),
                  share(receiver.host, topology.host_of(to).receive_bytes_per_s)});
  }
  return bytes / bytes_per_s + bytes * receiver.progress_s_per_byte;
}

}  // namespace

double computing_halo_seconds(const TrainingPrograms& programs, const Device& device,
                              std::int64_t rows) {
  const RankShape shape{.rows = {.computed = rows}};
  double seconds = 0;
  for (const Block& block : programs.training_schedule.blocks) {
    for (const Call& call : block.calls) {
      if (call.rows != Rows::kComputed && call.rows != Rows::kPlaced) continue;
      seconds += call_seconds(device, programs.training, call, shape);
    }
  }
  return seconds;
}

Recomputation recomputation_by_cost(const EpochSetting& setting, ProgramsByOrder& programs,
                                    std::span<const LayerPlan> layers) {
  const Topology& topology = setting.topology;
  const int ranks = topology.ranks();
  // Rows of the first layer's output, as the second one wants them.
  const TrainingPrograms& recomputing = programs.of(layers[1].algebra, /*recomputes=*/true);
  double row_bytes = 0;
  double other_bytes = 0;  // of all other messages of an epoch
  for (const Operation& op : recomputing.training.operations) {
    if (!op.needs_messages() || op.constant) continue;
    (op.decided.fetches_rest ? row_bytes : other_bytes) +=
        mean_message_bytes(layers[1].bits, op.columns);
  }
  Recomputation result(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    const Device& device = topology.device(rank);
    for (int owner = 0; owner < ranks; ++owner) {
      if (owner == rank) continue;
      // All rows of a pair cost alike, and what they are made from has been there since the start.
      const auto count = [&](bool covers) {
        return setting.partition.messages(Direction::kForward, owner, rank, covers).count;
      };
      const std::int64_t rows = count(false);
      // The pair has more messages then, because it keeps rows.
      const std::int64_t covered = count(recomputing.covers);
      const double bytes = static_cast<double>(covered) * row_bytes -
                           static_cast<double>(rows - covered) * other_bytes;
      if (computing_halo_seconds(recomputing, device, rows) <
          fetch_seconds(topology, owner, rank, bytes)) {
        result.set(rank, owner);
      }
    }
  }
  return result;
}

}  // namespace atl
