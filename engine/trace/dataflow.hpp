// The global data-flow graph of one epoch: what ran on which rank, what travelled between them, and
// what waited for what (dPRO, arXiv 2205.02473, section on the global data-flow graph).
#pragma once

#include <string>
#include <vector>

#include "engine/trace/merge.hpp"

namespace atl {

enum class FlowKind : std::uint8_t {
  kWork,     // a span of a rank's thread, or of its device's queue
  kPacket,   // one packet, from when both ends had posted it until it has arrived
  kSend,     // the same packet at its sender, until its memory was free again
  kMeeting,  // of a sum over ranks: the moment at which the last rank has begun it
};
const char* to_string(FlowKind kind);

struct FlowNode {
  FlowKind kind = FlowKind::kWork;
  std::string name;  // of the span; of a meeting: of the sum
  std::string what;
  std::string direction;
  int rank = -1;         // of packets and sends: the sender; of a meeting: -1
  int destination = -1;  // of packets and sends: the receiver
  int layer = -1;
  int lane = kHostLane;
  double begin_us = 0;  // since the trace's first event
  double end_us = 0;
  std::int64_t bytes = 0;
};

enum class FlowEdgeKind : std::uint8_t {
  kOrder,    // `to` is the next span of this rank: it begins after `from` has ended
  kPost,     // the packet or send `to` begins when `from` has come to at_us, where it is posted
  kArrival,  // the wait `to` ends after the packet or send `from` has ended
  kJoin,     // the meeting `to` is not before `from` has begun
  kRelease,  // the sum `to` ends after the meeting `from`
};
const char* to_string(FlowEdgeKind kind);

struct FlowEdge {
  int from = 0;
  int to = 0;
  FlowEdgeKind kind = FlowEdgeKind::kOrder;
  double at_us = 0;  // kPost only
};

// The time that one rank took for the epoch, with what no span covers.
struct RankEpoch {
  double begin_us = 0;
  double end_us = 0;
};

struct DataflowGraph {
  int epoch = 0;
  std::vector<RankEpoch> ranks;
  std::vector<FlowNode> nodes;
  std::vector<FlowEdge> edges;

  double begin_us() const;  // of the first rank
  double end_us() const;    // of the last
};

// Epochs of training that every rank has a span of, ascending.
std::vector<int> traced_epochs(const Trace& trace);
// The one whose slowest rank took the median time; of two in the middle the faster. Throws
// Error{kInput} if there is none.
int median_epoch(const Trace& trace);

// Throws Error{kInput} if the epoch is not there, or a packet lacks where it was posted or waited
// for.
DataflowGraph make_dataflow(const MergedTrace& merged, int epoch);

// Times count from the epoch's begin (docs/formats.md).
Json to_json(const DataflowGraph& graph);

}  // namespace atl
