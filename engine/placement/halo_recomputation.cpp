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
  const auto rank = counted_views(programs.training, shape, DType::kF32);
  double seconds = 0;
  for (const Block& block : programs.training_schedule.blocks) {
    for (const Call& call : block.calls) {
      if (call.rows != Rows::kComputed && call.rows != Rows::kPlaced) continue;
      seconds += call_seconds(device, *rank, call);
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
  double other_bytes[2] = {0, 0};  // of all other messages of an epoch, by Direction
  for (const Operation& op : recomputing.training.operations) {
    if (!op.needs_messages() || op.constant) continue;
    (op.decided.fetches_rest ? row_bytes
                             : other_bytes[static_cast<std::size_t>(op.messages.direction)]) +=
        mean_message_bytes(layers[1].bits, op.columns);
  }
  Recomputation result(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    const Device& device = topology.device(rank);
    for (int owner = 0; owner < ranks; ++owner) {
      if (owner == rank) continue;
      // All rows of a pair cost alike, and what they are made from has been there since the start.
      const auto count = [&](Direction direction, int from, int to, bool covers) {
        return setting.partition.messages(direction, from, to, covers).count;
      };
      const std::int64_t rows = count(Direction::kForward, owner, rank, false);
      double bytes = row_bytes * static_cast<double>(
                                     count(Direction::kForward, owner, rank, recomputing.covers));
      // The pair has more messages then, both ways, because it keeps rows.
      for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
        for (const auto& [from, to] : {std::pair(owner, rank), std::pair(rank, owner)}) {
          bytes -= other_bytes[static_cast<std::size_t>(direction)] *
                   static_cast<double>(count(direction, from, to, false) -
                                       count(direction, from, to, recomputing.covers));
        }
      }
      if (computing_halo_seconds(recomputing, device, rows) <
          fetch_seconds(topology, owner, rank, bytes)) {
        result.set(rank, owner);
      }
    }
  }
  return result;
}

}  // namespace atl
