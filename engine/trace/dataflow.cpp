#include "engine/trace/dataflow.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace atl {

namespace {

// Rounding of times that were written as text and moved to another clock.
constexpr double kRoundingUs = 0.01;

bool is_epoch(const TraceEvent& event) {
  return event.lane == kEpochLane && event.name == "epoch" && event.tag.epoch >= 0;
}

// Epoch -> its time on the rank. Of one that ran twice, the last.
std::map<int, RankEpoch> epochs_of(const RankTrace& rank) {
  std::map<int, RankEpoch> epochs;
  for (const TraceEvent& event : rank.events) {
    if (is_epoch(event)) epochs[event.tag.epoch] = {event.begin_us, event.end_us};
  }
  return epochs;
}

class GraphMaker {
 public:
  GraphMaker(const MergedTrace& merged, int epoch) : merged_(merged), trace_(merged.trace) {
    graph_.epoch = epoch;
    for (std::size_t r = 0; r < trace_.ranks.size(); ++r) {
      const std::map<int, RankEpoch> epochs = epochs_of(trace_.ranks[r]);
      const auto found = epochs.find(epoch);
      if (found == epochs.end()) {
        fail_input("{}: rank {} has no epoch {}; there are {}", trace_.place, r, epoch,
                   epochs.empty()
                       ? "none"
                       : fmt::format("{} to {}", epochs.begin()->first, epochs.rbegin()->first));
      }
      graph_.ranks.push_back(found->second);
    }
  }

  DataflowGraph make() {
    for (std::size_t r = 0; r < trace_.ranks.size(); ++r) add_work(static_cast<int>(r));
    for (const MatchedPacket& packet : merged_.packets) add_packet(packet);
    for (const MatchedReduction& reduction : merged_.reductions) add_meeting(reduction);
    return std::move(graph_);
  }

 private:
  // rank, name, what, layer, direction
  using WorkKey = std::tuple<int, std::string, std::string, int, std::string>;

  // An evaluation after the epoch carries its number, too.
  bool in_epoch(int rank, const TraceEvent& event) const {
    const RankEpoch& epoch = graph_.ranks[static_cast<std::size_t>(rank)];
    const double middle = (event.begin_us + event.end_us) / 2;
    return event.tag.epoch == graph_.epoch && middle >= epoch.begin_us - kRoundingUs &&
           middle <= epoch.end_us + kRoundingUs;
  }

  int add_node(FlowKind kind, int rank, const TraceEvent& event) {
    FlowNode node;
    node.kind = kind;
    node.name = event.name;
    node.what = event.what;
    node.direction = event.direction;
    node.rank = rank;
    node.layer = event.tag.layer;
    node.lane = event.lane;
    node.begin_us = event.begin_us;
    node.end_us = event.end_us;
    node.bytes = event.bytes;
    graph_.nodes.push_back(std::move(node));
    return static_cast<int>(graph_.nodes.size()) - 1;
  }
  void add_edge(int from, int to, FlowEdgeKind kind, double at_us = 0) {
    graph_.edges.push_back({from, to, kind, at_us});
  }

  void add_work(int rank) {
    std::map<int, int> last;  // of each lane
    const std::vector<TraceEvent>& events = trace_.ranks[static_cast<std::size_t>(rank)].events;
    for (std::size_t i = 0; i < events.size(); ++i) {
      const TraceEvent& e = events[i];
      if (e.lane > kQueueLane || !in_epoch(rank, e)) continue;
      const int node = add_node(FlowKind::kWork, rank, e);
      work_[{rank, e.name, e.what, e.tag.layer, e.direction}].push_back(node);
      node_of_[{rank, static_cast<int>(i)}] = node;
      if (const auto before = last.find(e.lane); before != last.end()) {
        add_edge(before->second, node, FlowEdgeKind::kOrder);
      }
      last[e.lane] = node;
    }
  }

  // The first work of these names on the rank, of the layer and direction of a packet, that has not
  // ended before `time`; -1 if there is none.
  int find_work(int rank, const std::string& name, const std::string& what, const TraceEvent& of,
                double time) const {
    const auto found = work_.find({rank, name, what, of.tag.layer, of.direction});
    if (found == work_.end()) return -1;
    for (const int node : found->second) {
      if (graph_.nodes[static_cast<std::size_t>(node)].end_us >= time - kRoundingUs) return node;
    }
    return -1;
  }

  [[noreturn]] void fail_incomplete(const TraceEvent& of, int rank,
                                    const std::string& lacks) const {
    fail_input(
        "{}: epoch {}, layer {}, {}: the packet from rank {} to rank {} has no span {} on rank {}: "
        "the file is damaged",
        trace_.place, graph_.epoch, of.tag.layer, of.direction, of.tag.source, of.tag.destination,
        lacks, rank);
  }

  // Where `rank` was when it posted at `time`: what passes through staging memory is posted at the
  // begin of the wait. Conversions post while they copy.
  int posting_work(int rank, const TraceEvent& of, double time) const {
    const std::string post = of.what.empty() ? "post" : of.what;
    int node = find_work(rank, post, "", of, time);
    const int wait = find_work(rank, "wait", of.what, of, time);
    if (node < 0 || (!of.what.empty() && wait >= 0 && wait < node)) node = wait;
    if (node < 0) fail_incomplete(of, rank, "'" + post + "'");
    return node;
  }
  int waiting_work(int rank, const TraceEvent& of, double time) const {
    const int node = find_work(rank, "wait", of.what, of, time);
    if (node < 0) fail_incomplete(of, rank, "'wait'");
    return node;
  }

  void add_packet(const MatchedPacket& packet) {
    const TraceEvent& send = trace_.event(packet.source, packet.send);
    const TraceEvent& received = trace_.event(packet.destination, packet.packet);
    if (!in_epoch(packet.source, send)) return;
    const int posted = posting_work(packet.source, send, send.begin_us);
    const int sending = add_node(FlowKind::kSend, packet.source, send);
    const int travelling = add_node(FlowKind::kPacket, packet.source, received);
    for (const int node : {sending, travelling}) {
      graph_.nodes[static_cast<std::size_t>(node)].destination = packet.destination;
      add_edge(posted, node, FlowEdgeKind::kPost, send.begin_us);
    }
    add_edge(posting_work(packet.destination, received, packet.awaited_us), travelling,
             FlowEdgeKind::kPost, packet.awaited_us);
    add_edge(sending, waiting_work(packet.source, send, send.end_us), FlowEdgeKind::kArrival);
    add_edge(travelling, waiting_work(packet.destination, received, received.end_us),
             FlowEdgeKind::kArrival);
  }

  void add_meeting(const MatchedReduction& reduction) {
    std::vector<int> nodes;
    double last = 0;
    for (std::size_t r = 0; r < reduction.size(); ++r) {
      const auto found = node_of_.find({static_cast<int>(r), reduction[r]});
      if (found == node_of_.end()) return;  // of another epoch, or of an evaluation
      nodes.push_back(found->second);
      last = std::max(last, trace_.event(static_cast<int>(r), reduction[r]).begin_us);
    }
    const int meeting = add_node(FlowKind::kMeeting, -1, trace_.event(0, reduction[0]));
    FlowNode& node = graph_.nodes[static_cast<std::size_t>(meeting)];
    node.begin_us = node.end_us = last;
    node.bytes = 0;
    for (const int of_rank : nodes) {
      node.bytes += graph_.nodes[static_cast<std::size_t>(of_rank)].bytes;
      add_edge(of_rank, meeting, FlowEdgeKind::kJoin);
      add_edge(meeting, of_rank, FlowEdgeKind::kRelease);
    }
  }

  const MergedTrace& merged_;
  const Trace& trace_;
  DataflowGraph graph_;
  std::map<WorkKey, std::vector<int>> work_;
  std::map<std::pair<int, int>, int> node_of_;  // rank and index of its event
};

}  // namespace

const char* to_string(FlowKind kind) {
  switch (kind) {
    case FlowKind::kWork:
      return "work";
    case FlowKind::kPacket:
      return "packet";
    case FlowKind::kSend:
      return "send";
    case FlowKind::kMeeting:
      return "meeting";
  }
  return "";
}

const char* to_string(FlowEdgeKind kind) {
  switch (kind) {
    case FlowEdgeKind::kOrder:
      return "order";
    case FlowEdgeKind::kPost:
      return "post";
    case FlowEdgeKind::kArrival:
      return "arrival";
    case FlowEdgeKind::kJoin:
      return "join";
    case FlowEdgeKind::kRelease:
      return "release";
  }
  return "";
}

double DataflowGraph::begin_us() const {
  return std::ranges::min_element(ranks, {}, &RankEpoch::begin_us)->begin_us;
}

double DataflowGraph::end_us() const {
  return std::ranges::max_element(ranks, {}, &RankEpoch::end_us)->end_us;
}

namespace {

// Epoch -> time of its slowest rank, of those that every rank has.
std::map<int, double> epoch_times(const Trace& trace) {
  std::map<int, double> longest;
  std::map<int, std::size_t> ranks;
  for (const RankTrace& rank : trace.ranks) {
    for (const auto& [epoch, time] : epochs_of(rank)) {
      double& most = longest[epoch];
      most = std::max(most, time.end_us - time.begin_us);
      ++ranks[epoch];
    }
  }
  std::erase_if(longest, [&](const auto& e) { return ranks[e.first] != trace.ranks.size(); });
  return longest;
}

}  // namespace

std::vector<int> traced_epochs(const Trace& trace) {
  std::vector<int> epochs;
  for (const auto& [epoch, time] : epoch_times(trace)) epochs.push_back(epoch);
  return epochs;
}

int median_epoch(const Trace& trace) {
  std::vector<std::pair<double, int>> epochs;
  for (const auto& [epoch, time] : epoch_times(trace)) epochs.emplace_back(time, epoch);
  if (epochs.empty()) fail_input("{}: has no epoch that every rank ran", trace.place);
  const auto middle = epochs.begin() + static_cast<std::ptrdiff_t>((epochs.size() - 1) / 2);
  std::ranges::nth_element(epochs, middle);
  return middle->second;
}

DataflowGraph make_dataflow(const MergedTrace& merged, int epoch) {
  return GraphMaker(merged, epoch).make();
}

Json to_json(const DataflowGraph& graph) {
  const double origin = graph.begin_us();
  Json result = {{"epoch", graph.epoch},
                 {"duration_us", graph.end_us() - origin},
                 {"ranks", Json::array()},
                 {"nodes", Json::array()},
                 {"edges", Json::array()}};
  for (const RankEpoch& rank : graph.ranks) {
    result["ranks"].push_back(
        {{"begin_us", rank.begin_us - origin}, {"end_us", rank.end_us - origin}});
  }
  for (const FlowNode& node : graph.nodes) {
    Json entry = {{"kind", to_string(node.kind)}, {"name", node.name}};
    if (node.rank >= 0) entry["rank"] = node.rank;
    if (node.destination >= 0) entry["destination"] = node.destination;
    if (node.layer >= 0) entry["layer"] = node.layer;
    if (!node.direction.empty()) entry["direction"] = node.direction;
    if (!node.what.empty()) entry["what"] = node.what;
    entry["begin_us"] = node.begin_us - origin;
    entry["end_us"] = node.end_us - origin;
    if (node.bytes > 0) entry["bytes"] = node.bytes;
    result["nodes"].push_back(std::move(entry));
  }
  for (const FlowEdge& edge : graph.edges) {
    Json entry = {{"from", edge.from}, {"to", edge.to}, {"kind", to_string(edge.kind)}};
    if (edge.kind == FlowEdgeKind::kPost) entry["at_us"] = edge.at_us - origin;
    result["edges"].push_back(std::move(entry));
  }
  return result;
}

}  // namespace atl
