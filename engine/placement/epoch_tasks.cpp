#include "engine/placement/epoch_tasks.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "engine/comm/divided_packets.hpp"

namespace atl {

namespace {

// MPI lets a smaller message set out at once; a larger one waits for its receiver to post, so the
// packets of a rank that is a layer ahead don't share the network with those that others wait for.
// The eager limit of Open MPI over TCP.
constexpr double kMostEagerBytes = 64 << 10;

// A packet as transfers, one for each of its pieces.
struct Packet {
  TaskId last = -1;  // of the last piece; -1: there is none
  int pieces = 1;
  TaskId task(int piece) const { return last - (pieces - 1) + piece; }
};

class TaskWriter {
 public:
  TaskWriter(const EpochSetting& setting, TaskDetail detail, TaskGraph& graph)
      : setting_(setting),
        merged_(detail == TaskDetail::kMerged),
        joins_packets_(merged_ && setting.topology.ranks() > kMostExactRanks),
        ranks_(setting.topology.ranks()),
        map_(setting.map()),
        graph_(graph),
        packed_(static_cast<std::size_t>(ranks_), -1),
        last_packet_(static_cast<std::size_t>(joins_packets_ ? 0 : ranks_ * ranks_), -1),
        last_(static_cast<std::size_t>(ranks_), -1),
        barrier_(static_cast<std::size_t>(ranks_), -1) {}

  // Late messages of the epoch that ends here arrive in the next one.
  void begin_epoch() {
    graph_.begin_epoch();
    std::ranges::fill(last_, -1);
    arriving_ = std::exchange(departing_, {});
  }

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
    for (int rank = 0; rank < ranks_; ++rank) {
      compute(rank, block.place, block.seconds[static_cast<std::size_t>(rank)],
              waits_ ? arrivals(rank) : std::span<const TaskId>());
    }
    waits_ = false;
    for (const ConversionCost& conversion : block.converts) convert(conversion, block.place);
    if (!begins.empty()) {
      sent_ = begins;
      pieces_begin_ = pieces_end_ = 0;
      if (!setting_.kind.late) departing_.clear();  // nobody asks for them later
      first_ = departing_.size();
      departing_.resize(first_ + packet_place(begins.size(), 0, 0));
    }
    for (std::size_t m = 0; m < begins.size(); ++m) {
      if (sent_[m].travels) begin(m, block.place);
    }
    if (setting_.overlap) {
      if (block.finishes) unpack(block.place, block.finished_pieces);
    } else if (!begins.empty()) {
      unpack(block.place, BlockCost::kAllPieces);
    }
  }

  // Every rank of a part sends to all others of it, and goes on when it has what they send. It has
  // copied what it sends, and what it gets.
  void convert(const ConversionCost& conversion, const PhasePlace& place) {
    const int roles = map_.ranks_per_part();
    SimTask packet = task_at(place, TaskKind::kTransfer, "packet");
    packet.in_group = true;
    for (int part = 0; part < map_.parts(); ++part) {
      const int first = map_.rank_of(part);
      arriving_shares_.assign(static_cast<std::size_t>(roles), {});
      for (int from = first; from < first + roles; ++from) {
        const TaskId copied = last_[static_cast<std::size_t>(from)];
        cut(from);
        for (int to = first; to < first + roles; ++to) {
          packet.bytes = from == to ? 0 : conversion.bytes(map_, from, to);
          if (packet.bytes == 0) continue;
          packet.rank = from;
          packet.destination = to;
          arriving_shares_[static_cast<std::size_t>(to - first)].push_back(
              graph_.add(packet, std::span(&copied, 1)));
        }
      }
      for (int role = 0; role < roles; ++role) {
        const std::vector<TaskId>& shares = arriving_shares_[static_cast<std::size_t>(role)];
        if (!shares.empty()) compute(first + role, place, 0, shares);
      }
    }
  }

  // Packs and sends the m-th messages under way.
  void begin(std::size_t m, PhasePlace place) {
    const MessageCost& messages = sent_[m];
    const PhasePlace pack{Phase::kPack, place.layer, place.backward};
    const PhasePlace post{Phase::kPost, place.layer, place.backward};
    for (int rank = 0; rank < ranks_; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      if (messages.late) unpack_late(rank, m);
      if (messages.is_shift) continue;
      packed_[r] = compute(rank, pack, messages.ranks[r].pack_s);
      cut(rank);
    }
    for (int rank = 0; rank < ranks_; ++rank) send(rank, m, post);
    if (messages.is_shift) return;
    for (int rank = 0; rank < ranks_; ++rank) {
      compute(rank, post, messages.ranks[static_cast<std::size_t>(rank)].post_s);
    }
  }

  // One packet for each rank that gets any of the messages.
  void send(int from, std::size_t m, const PhasePlace& place) {
    const MessageCost& messages = sent_[m];
    if (messages.row_bytes == 0) return;
    SimTask packet = task_at(place, TaskKind::kTransfer, "packet");
    packet.rank = from;
    int before = -1;  // the receiver of the last packet
    for (int to = 0; to < ranks_; ++to) {
      const std::int64_t rows = messages.rows(setting_, from, to);
      if (rows == 0) continue;
      const double bytes = static_cast<double>(rows) * messages.row_bytes;
      const double sent =
          messages.is_shift ? 0 : static_cast<double>(rows) * setting_.kind.messages;
      const int pieces = bytes < kLeastDividedBytes ? 1 : messages.pieces;
      Packet& own = packet_to(m, from, to);
      const bool joins = before == to - 1 && are_joined(from, before, to) &&
                         packet_to(m, from, before).pieces == pieces;
      own = joins ? packet_to(m, from, before)
                  : add_packet(packet, to, pieces, bytes > kMostEagerBytes);
      for (int piece = 0; piece < pieces; ++piece) {
        SimTask& task = graph_.task(own.task(piece));
        task.bytes += bytes / pieces;
        task.rows += sent / pieces;
        task.packets += joins ? 1 : 0;
      }
      before = to;
    }
  }

  // Packets of a rank to another, and their pieces, arrive in the order in which they were sent:
  // none shares the network with the next, as it does with packets to others.
  Packet add_packet(const SimTask& packet, int to, int pieces, bool is_large) {
    TaskId alone = -1;
    TaskId& before = last_packet_.empty()
                         ? alone
                         : last_packet_[static_cast<std::size_t>(packet.rank * ranks_ + to)];
    SimTask own = packet;
    own.destination = to;
    // A large message sets out when its receiver has asked for it, too.
    const std::size_t posts = is_large ? 2 : 1;
    TaskId after[3] = {packed_[static_cast<std::size_t>(packet.rank)],
                       packed_[static_cast<std::size_t>(to)]};
    for (int piece = 0; piece < pieces; ++piece) {
      own.queues = before >= 0;
      after[posts] = before;
      before = graph_.add(own, std::span(after, posts + (own.queues ? 1 : 0)));
    }
    return {before, pieces};
  }

  // The messages of the epoch before, as soon as the next ones are to be made.
  void unpack_late(int rank, std::size_t m) {
    if (arriving_.empty()) return;  // the first epoch
    arrivals_.clear();
    for (int from = 0; from < ranks_; ++from) {
      const Packet& packet = arriving_[first_ + packet_place(m, from, rank)];
      if (packet.last >= 0) arrivals_.push_back(packet.last);
    }
    compute(rank, {Phase::kRest, -1, false},
            sent_[m].ranks[static_cast<std::size_t>(rank)].unpack_s, arrivals_);
  }

  // Packets to these two ranks count as one task.
  bool are_joined(int from, int a, int b) const {
    if (!joins_packets_ || a < 0 || device(a).host != device(b).host) return false;
    return device(from).host != device(a).host &&
           setting_.topology.link(from, a) == setting_.topology.link(from, b);
  }

  std::size_t packet_place(std::size_t m, int from, int to) const {
    const auto ranks = static_cast<std::size_t>(ranks_);
    return (m * ranks + static_cast<std::size_t>(to)) * ranks + static_cast<std::size_t>(from);
  }
  Packet& packet_to(std::size_t m, int from, int to) {
    return departing_[first_ + packet_place(m, from, to)];
  }

  // The packets under way, or pieces of them, that `rank` waits for now in this epoch.
  std::span<const TaskId> arrivals(int rank) {
    arrivals_.clear();
    for (std::size_t m = 0; m < sent_.size(); ++m) {
      if (sent_[m].late) continue;
      for (int from = 0; from < ranks_; ++from) {
        const Packet& packet = packet_to(m, from, rank);
        const int end = std::min(pieces_end_, packet.pieces);
        if (packet.last >= 0 && end > pieces_begin_) arrivals_.push_back(packet.task(end - 1));
      }
    }
    return arrivals_;
  }

  // The share of these messages that is waited for now.
  double share_finished(const MessageCost& messages) const {
    const int begin = std::min(pieces_begin_, messages.pieces);
    return (std::min(pieces_end_, messages.pieces) - begin) / static_cast<double>(messages.pieces);
  }

  // Waits for what is under way, up to so many pieces of a packet. Where nothing must be done to
  // it, the next block waits.
  void unpack(PhasePlace place, int pieces) {
    pieces_begin_ = std::exchange(pieces_end_, pieces);
    place.phase = Phase::kUnpack;
    const bool unpacks = std::ranges::any_of(sent_, [&](const MessageCost& messages) {
      return messages.unpacks && share_finished(messages) > 0;
    });
    const bool late = std::ranges::any_of(sent_, &MessageCost::late);
    waits_ = !unpacks && !late;
    for (int rank = 0; rank < ranks_; ++rank) {
      MessageCost::Seconds all;
      for (const MessageCost& messages : sent_) {
        const MessageCost::Seconds& seconds = messages.ranks[static_cast<std::size_t>(rank)];
        const double share = share_finished(messages);
        if (!messages.late) all.unpack_s += share * seconds.unpack_s;
        all.deliver_s += share * seconds.deliver_s;
      }
      if (unpacks) compute(rank, place, all.unpack_s, arrivals(rank));
      if ((late && pieces_begin_ == 0) || all.deliver_s > 0) {
        compute(rank, {Phase::kRest, -1, false}, all.deliver_s,
                late ? arrivals(rank) : std::span<const TaskId>());
      }
    }
  }

  const EpochSetting& setting_;
  bool merged_;
  bool joins_packets_;
  int ranks_;
  RankMap map_;
  TaskGraph& graph_;
  bool waits_ = false;                 // the next block waits for what is under way
  std::span<const MessageCost> sent_;  // under way, or the last that was
  // The packets of these from `first_` on, [(messages * ranks + to) * ranks + from].
  // Where messages are late, those of all before them in this epoch, too, and of the epoch before.
  std::size_t first_ = 0;
  std::vector<Packet> departing_;
  std::vector<Packet> arriving_;
  // The pieces of packets that are waited for now.
  int pieces_begin_ = 0;
  int pieces_end_ = 0;
  std::vector<TaskId> packed_;                        // by rank: the last task that packed
  std::vector<TaskId> arrivals_;                      // scratch
  std::vector<std::vector<TaskId>> arriving_shares_;  // scratch, by role
  std::vector<TaskId> last_packet_;  // [from * ranks + to]; -1: none. Empty: they are joined
  std::vector<TaskId> last_;         // of each rank, that may be added to; -1: none
  std::vector<TaskId> barrier_;      // of each rank, that its next task waits for; -1: none
};

}  // namespace

// Epochs of late messages behind the first one. Where the wire is what an epoch waits for, it is
// busy from one end to the other only after some of them, and each is a few percent longer or
// shorter than the one before.
constexpr int kLateEpochs = 12;

void add_epoch_tasks(const EpochSetting& setting, const EpochCosts& costs,
                     std::span<const int> pieces, TaskDetail detail, TaskGraph& graph) {
  TaskWriter writer(setting, detail, graph);
  const auto add_one = [&] {
    for (const int piece : pieces) writer.add(costs.piece(piece));
  };
  add_one();
  if (!setting.kind.late) return;
  for (int epoch = 0; epoch < kLateEpochs; ++epoch) {
    writer.begin_epoch();
    add_one();
  }
}

TaskGraph epoch_tasks(const EpochSetting& setting, std::span<const LayerPlan> layers,
                      TaskDetail detail) {
  TaskGraph graph(setting.topology.ranks());
  ProgramsByOrder programs(setting.model, setting.topology.ranks(), setting.arrival);
  EpochCosts costs(setting.topology, programs, setting.corrections);
  add_epoch_tasks(setting, costs, costs.pieces(setting, 0, layers, 0), detail, graph);
  return graph;
}

void add_stage_tasks(const EpochSetting& setting, const EpochCosts& costs,
                     std::span<const int> stage, TaskGraph& graph) {
  TaskWriter writer(setting, TaskDetail::kMerged, graph);
  for (const int piece : stage) writer.add(costs.piece(piece));
}

double epoch_end_seconds(const TaskGraph& graph, const TaskTimes& times, int epoch) {
  const TaskId end = epoch + 1 < graph.epochs() ? graph.epoch_begin(epoch + 1) : graph.size();
  double last = 0;
  for (TaskId id = graph.epoch_begin(epoch); id < end; ++id) {
    if (graph.task(id).kind == TaskKind::kTransfer) continue;
    last = std::max(last, times.end_s[static_cast<std::size_t>(id)]);
  }
  return last;
}

double epoch_seconds(const TaskGraph& graph, const TaskTimes& times) {
  if (graph.epochs() == 1) return times.makespan_s;
  const int last = graph.epochs() - 1;
  const int before = last / 2;
  return (epoch_end_seconds(graph, times, last) - epoch_end_seconds(graph, times, before)) /
         (last - before);
}

std::vector<double> computing_seconds(const TaskGraph& graph) {
  std::vector<double> seconds(static_cast<std::size_t>(graph.ranks()), 0);
  for (TaskId id = graph.epoch_begin(graph.epochs() - 1); id < graph.size(); ++id) {
    const SimTask& task = graph.task(id);
    if (task.kind == TaskKind::kCompute) {
      seconds[static_cast<std::size_t>(task.rank)] += task.seconds;
    }
  }
  return seconds;
}

PacketSums packet_sums(const TaskGraph& graph) {
  PacketSums sums;
  for (TaskId id = graph.epoch_begin(graph.epochs() - 1); id < graph.size(); ++id) {
    const SimTask& task = graph.task(id);
    (task.in_group ? sums.group_bytes : sums.bytes) += task.bytes;
    sums.rows += task.rows;
  }
  return sums;
}

double lower_bound_seconds(const Topology& topology, const TaskGraph& graph) {
  CardLoad cards(topology);
  for (TaskId id = graph.epoch_begin(graph.epochs() - 1); id < graph.size(); ++id) {
    const SimTask& task = graph.task(id);
    if (task.kind == TaskKind::kTransfer) cards.add(task.rank, task.destination, task.bytes);
  }
  return std::max(std::ranges::max(computing_seconds(graph)), cards.seconds());
}

}  // namespace atl
