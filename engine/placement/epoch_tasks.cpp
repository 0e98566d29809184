#include "engine/placement/epoch_tasks.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace atl {

namespace {

class TaskWriter {
 public:
  TaskWriter(const EpochSetting& setting, TaskDetail detail, TaskGraph& graph)
      : setting_(setting),
        merged_(detail == TaskDetail::kMerged),
        joins_packets_(merged_ && setting.topology.ranks() > kMostExactRanks),
        ranks_(setting.topology.ranks()),
        graph_(graph),
        last_(static_cast<std::size_t>(ranks_), -1),
        barrier_(static_cast<std::size_t>(ranks_), -1) {}

  void add(const PieceCost& piece) {
    for (const BlockCost& block : piece.blocks) add(block);
    if (piece.ends_stage()) all_reduce(piece);
  }

 private:
  const Device& device(int rank) const { return setting_.topology.device(rank); }

  static SimTask task_at(const PhasePlace& place, TaskKind kind, const char* name) {
    return {.kind = kind,
            .name = name,
            .direction = place.layer < 0  ? ""
                         : place.backward ? "backward"
                                          : "forward",
            .layer = place.layer};
  }

  // A span of a rank's main thread. `after`: what it waits for beside the span before it.
  TaskId compute(int rank, const PhasePlace& place, double seconds,
                 std::span<const TaskId> after = {}) {
    const auto r = static_cast<std::size_t>(rank);
    const TaskId barrier = std::exchange(barrier_[r], -1);
    if (merged_ && after.empty() && barrier < 0 && last_[r] >= 0) {
      graph_.task(last_[r]).seconds += seconds;
      return last_[r];
    }
    ATOLL_ASSERT(barrier < 0 || after.empty());
    if (barrier >= 0) after = std::span(&barrier, 1);
    SimTask task = task_at(place, TaskKind::kCompute, to_string(place.phase));
    task.rank = rank;
    task.seconds = seconds;
    return last_[r] = graph_.add(task, after);
  }

  // Later work of `rank` is not added to the task it is in.
  void cut(int rank) { last_[static_cast<std::size_t>(rank)] = -1; }

  void all_reduce(const PieceCost& piece) {
    SimTask task = task_at(piece.sum_place, TaskKind::kDelay, to_string(piece.sum_place.phase));
    task.seconds = piece.sum_s;
    const TaskId delay = graph_.add(task, last_);
    std::ranges::fill(last_, -1);
    std::ranges::fill(barrier_, delay);
  }

  // engine/program/network.cpp, run_blocks().
  void add(const BlockCost& block) {
    const std::vector<MessageCost>& begins = block.begins;
    if (!begins.empty()) {
      sent_ = begins;
      packets_.assign(begins.size() * static_cast<std::size_t>(ranks_ * ranks_), -1);
    }
    for (int rank = 0; rank < ranks_; ++rank) {
      compute(rank, block.place, block.seconds[static_cast<std::size_t>(rank)],
              waits_ ? arrivals(rank) : std::span<const TaskId>());
      for (std::size_t m = 0; m < begins.size(); ++m) post(rank, m, block.place);
    }
    waits_ = false;
    if (setting_.overlap ? block.finishes : !begins.empty()) unpack(block.place);
  }

  // Packs and sends the m-th messages under way.
  void post(int from, std::size_t m, PhasePlace place) {
    const MessageCost& messages = sent_[m];
    const MessageCost::Seconds& seconds = messages.ranks[static_cast<std::size_t>(from)];
    place.phase = Phase::kPack;
    const TaskId packed = compute(from, place, seconds.pack_s);
    cut(from);
    SimTask packet = task_at(place, TaskKind::kTransfer, "packet");
    packet.rank = from;
    int before = -1;  // the receiver of the last packet
    for (int to = 0; to < ranks_; ++to) {
      const std::int64_t rows = messages.rows(setting_.partition, from, to);
      if (rows == 0) continue;
      const double bytes = static_cast<double>(rows) * messages.row_bytes;
      TaskId& own = packet_to(m, from, to);
      if (before == to - 1 && are_joined(from, before, to)) {
        own = packet_to(m, from, before);
        graph_.task(own).bytes += bytes;
        ++graph_.task(own).packets;
      } else {
        own = graph_.add(packet, std::span(&packed, 1));
        graph_.task(own).destination = to;
        graph_.task(own).bytes = bytes;
      }
      before = to;
    }
    place.phase = Phase::kPost;
    compute(from, place, seconds.post_s);
  }

  // Packets to these two ranks count as one task.
  bool are_joined(int from, int a, int b) const {
    if (!joins_packets_ || a < 0 || device(a).host != device(b).host) return false;
    return device(from).host != device(a).host &&
           setting_.topology.link(from, a) == setting_.topology.link(from, b);
  }

  TaskId& packet_to(std::size_t m, int from, int to) {
    const auto ranks = static_cast<std::size_t>(ranks_);
    return packets_[(m * ranks + static_cast<std::size_t>(to)) * ranks +
                    static_cast<std::size_t>(from)];
  }

  // The packets under way that `rank` waits for.
  std::span<const TaskId> arrivals(int rank) {
    arrivals_.clear();
    for (std::size_t m = 0; m < sent_.size(); ++m) {
      for (int from = 0; from < ranks_; ++from) {
        if (packet_to(m, from, rank) >= 0) arrivals_.push_back(packet_to(m, from, rank));
      }
    }
    return arrivals_;
  }

  // Waits for what is under way. Where nothing must be unpacked, the next block waits.
  void unpack(PhasePlace place) {
    place.phase = Phase::kUnpack;
    waits_ = std::ranges::none_of(sent_, &MessageCost::unpacks);
    if (waits_) return;
    for (int rank = 0; rank < ranks_; ++rank) {
      const std::span<const TaskId> after = arrivals(rank);
      if (after.empty()) continue;
      double seconds = 0;
      for (const MessageCost& messages : sent_) {
        seconds += messages.ranks[static_cast<std::size_t>(rank)].unpack_s;
      }
      compute(rank, place, seconds, after);
    }
  }

  const EpochSetting& setting_;
  bool merged_;
  bool joins_packets_;
  int ranks_;
  TaskGraph& graph_;
  bool waits_ = false;                 // the next block waits for what is under way
  std::span<const MessageCost> sent_;  // under way, or the last that was
  std::vector<TaskId> packets_;   // of these, [(messages * ranks + to) * ranks + from]; -1: none
  std::vector<TaskId> arrivals_;  // scratch
  std::vector<TaskId> last_;      // of each rank, that may be added to; -1: none
  std::vector<TaskId> barrier_;   // of each rank, that its next task waits for; -1: none
};

}  // namespace

TaskGraph epoch_tasks(const EpochSetting& setting, std::span<const LayerPlan> layers,
                      TaskDetail detail) {
  TaskGraph graph(setting.topology.ranks());
  ProgramsByOrder programs(setting.model, setting.topology.ranks());
  EpochCosts costs(setting.topology, programs, setting.corrections);
  TaskWriter writer(setting, detail, graph);
  for (const int piece : costs.pieces(setting, 0, layers, 0)) writer.add(costs.piece(piece));
  return graph;
}

void add_stage_tasks(const EpochSetting& setting, const EpochCosts& costs,
                     std::span<const int> stage, TaskGraph& graph) {
  TaskWriter writer(setting, TaskDetail::kMerged, graph);
  for (const int piece : stage) writer.add(costs.piece(piece));
}

std::vector<double> computing_seconds(const TaskGraph& graph) {
  std::vector<double> seconds(static_cast<std::size_t>(graph.ranks()), 0);
  for (const SimTask& task : graph.tasks()) {
    if (task.kind == TaskKind::kCompute) {
      seconds[static_cast<std::size_t>(task.rank)] += task.seconds;
    }
  }
  return seconds;
}

double lower_bound_seconds(const Topology& topology, const TaskGraph& graph) {
  CardLoad cards(topology);
  for (const SimTask& task : graph.tasks()) {
    if (task.kind == TaskKind::kTransfer) cards.add(task.rank, task.destination, task.bytes);
  }
  return std::max(std::ranges::max(computing_seconds(graph)), cards.seconds());
}

}  // namespace atl
