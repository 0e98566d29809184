// Writes the costs of an epoch as tasks, in the order in which the ranks of a job run them.
#pragma once

#include "engine/placement/epoch_cost.hpp"
#include "engine/placement/task_graph.hpp"

namespace atl {

// On more ranks than these an epoch has so many packets that a search simulates them
// approximately.
inline constexpr int kMostExactRanks = 32;

enum class TaskDetail {
  kPhases,  // a task per span of a trace
  // Phases that follow each other without a wait are one task. On more than kMostExactRanks the
  // packets of an exchange from one rank to the ranks of another host are one, too, which is an
  // approximation: they end together.
  kMerged,
};

// A search writes thousands of graphs: it keeps its memory from one to the next.
class TaskWriter {
 public:
  // The topology must outlive it.
  TaskWriter(const Topology& topology, TaskDetail detail);

  // Begins another graph. `setting`, which has that topology, must outlive what is added.
  void begin(const EpochSetting& setting);
  // Begins the next epoch. Late messages of the one that ends here arrive in it.
  void begin_epoch();
  void add(const PieceCost& piece);
  // All that was added since begin().
  const TaskGraph& graph() const { return graph_; }

 private:
  // A packet as transfers, one for each of its pieces.
  struct Packet {
    TaskId last = -1;  // of the last piece; -1: there is none
    int pieces = 1;
    TaskId task(int piece) const { return last - (pieces - 1) + piece; }
  };

  // A span of a rank's main thread. `after`: what it waits for beside the span before it.
  TaskId compute(int rank, const PhasePlace& place, double seconds,
                 std::span<const TaskId> after = {});
  // Later work of `rank` is not added to the task it is in.
  void cut(int rank) { last_[static_cast<std::size_t>(rank)] = -1; }

  void add(const BlockCost& block);
  void all_reduce(const PieceCost& piece);
  // Every rank of a part sends to all others of it, and goes on when it has what they send. It has
  // copied what it sends, and what it gets.
  void convert(const ConversionCost& conversion, const PhasePlace& place);
  // Packs and sends the m-th messages under way.
  void begin_messages(std::size_t m, const PhasePlace& place);
  // One packet for each rank that gets any of the messages.
  void send(int from, std::size_t m, const PhasePlace& place);
  // Packets of a rank to another, and their pieces, arrive in the order in which they were sent:
  // none shares the network with the next, as it does with packets to others.
  Packet add_packet(SimTask& packet, int pieces, bool is_large);
  // The messages of the epoch before, as soon as the next ones are to be made.
  void unpack_late(int rank, std::size_t m);
  // Waits for what is under way, up to so many pieces of a packet. Where nothing must be done to
  // it, the next block waits.
  void unpack(PhasePlace place, int pieces);

  // Packets to these two ranks count as one task.
  bool are_joined(int from, int a, int b) const;
  std::size_t packet_place(std::size_t m, int from, int to) const {
    const auto ranks = static_cast<std::size_t>(ranks_);
    return (m * ranks + static_cast<std::size_t>(to)) * ranks + static_cast<std::size_t>(from);
  }
  Packet& packet_to(std::size_t m, int from, int to) {
    return departing_[first_ + packet_place(m, from, to)];
  }
  // The packets under way, or pieces of them, that `rank` waits for now in this epoch.
  std::span<const TaskId> arrivals(int rank);
  // The share of these messages that is waited for now.
  double share_finished(const MessageCost& messages) const;

  const Topology& topology_;
  bool merged_;
  bool joins_packets_;
  int ranks_;
  TaskGraph graph_;
  const EpochSetting* setting_ = nullptr;
  RankMap map_{1};
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

}  // namespace atl
