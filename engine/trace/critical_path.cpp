#include "engine/trace/critical_path.hpp"

#include <algorithm>

namespace atl {

namespace {

class Walker {
 public:
  explicit Walker(const DataflowGraph& graph) : graph_(graph), incoming_(graph.nodes.size()) {
    for (const FlowEdge& edge : graph.edges) {
      incoming_[static_cast<std::size_t>(edge.to)].push_back(&edge);
    }
  }

  CriticalPath walk() {
    const auto last = std::ranges::max_element(graph_.ranks, {}, &RankEpoch::end_us);
    const int rank = static_cast<int>(last - graph_.ranks.begin());
    time_us_ = last->end_us;
    int node = last_work(rank);
    if (node < 0) pass_gap(rank, last->begin_us);
    if (node >= 0) pass_gap(rank, at(node).end_us);
    // Every node is left once at most, for something that ended no later.
    for (std::size_t steps = 0; node >= 0; ++steps) {
      if (steps > graph_.nodes.size()) {
        fail_input("epoch {}: the critical path goes in circles: the trace is damaged",
                   graph_.epoch);
      }
      node = leave(node);
    }
    std::ranges::reverse(path_.steps);
    return std::move(path_);
  }

 private:
  const FlowNode& at(int node) const { return graph_.nodes[static_cast<std::size_t>(node)]; }
  const std::vector<const FlowEdge*>& into(int node) const {
    return incoming_[static_cast<std::size_t>(node)];
  }

  int last_work(int rank) const {
    int last = -1;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const FlowNode& node = graph_.nodes[i];
      if (node.kind != FlowKind::kWork || node.rank != rank) continue;
      if (last < 0 || node.end_us >= at(last).end_us) last = static_cast<int>(i);
    }
    return last;
  }

  // The path was at `node` since `begin_us`, as far as that is before where the path is already.
  void pass(const FlowNode& node, double begin_us) {
    add({node.name, node.direction, node.rank, node.destination, node.layer, begin_us, time_us_});
  }
  void pass_gap(int rank, double begin_us) {
    add({kBetweenSpans, "", rank, -1, -1, begin_us, time_us_});
  }
  void add(PathStep step) {
    if (step.begin_us >= time_us_) return;
    time_us_ = step.begin_us;
    path_.steps.push_back(std::move(step));
  }

  // Walks through the node and returns the one before; -1 at the begin of the epoch.
  int leave(int node) {
    if (const FlowEdge* arrival = last_arrival(node)) return leave_for_packet(node, arrival->from);
    if (const int meeting = late_meeting(node); meeting >= 0) {
      pass(at(node), at(meeting).begin_us);
      node = last_to_join(meeting);
    }
    pass(at(node), at(node).begin_us);
    const int rank = at(node).rank;
    for (const FlowEdge* edge : into(node)) {
      if (edge->kind != FlowEdgeKind::kOrder) continue;
      pass_gap(rank, at(edge->from).end_us);
      return edge->from;
    }
    pass_gap(rank, graph_.ranks[static_cast<std::size_t>(rank)].begin_us);
    return -1;
  }

  // The last arrival that a wait really waited for; null for other work and if all was there
  // before.
  const FlowEdge* last_arrival(int node) const {
    const FlowEdge* last = nullptr;
    for (const FlowEdge* edge : into(node)) {
      if (edge->kind != FlowEdgeKind::kArrival) continue;
      const double end = at(edge->from).end_us;
      if (end <= at(node).begin_us || end > time_us_) continue;
      if (last == nullptr || end > at(last->from).end_us) last = edge;
    }
    return last;
  }

  int leave_for_packet(int wait, int packet) {
    pass(at(wait), at(packet).end_us);
    const FlowEdge* post = nullptr;
    for (const FlowEdge* edge : into(packet)) {
      if (edge->kind != FlowEdgeKind::kPost) continue;
      if (post == nullptr || edge->at_us > post->at_us) post = edge;
    }
    pass(at(packet), post->at_us);
    return post->from;
  }

  // The meeting of a sum that this rank was not the last to begin, or -1.
  int late_meeting(int node) const {
    for (const FlowEdge* edge : into(node)) {
      if (edge->kind != FlowEdgeKind::kRelease) continue;
      const double met = at(edge->from).begin_us;
      if (met > at(node).begin_us && met <= time_us_) return edge->from;
    }
    return -1;
  }
  int last_to_join(int meeting) const {
    int last = -1;
    for (const FlowEdge* edge : into(meeting)) {
      if (last < 0 || at(edge->from).begin_us > at(last).begin_us) last = edge->from;
    }
    return last;
  }

  const DataflowGraph& graph_;
  std::vector<std::vector<const FlowEdge*>> incoming_;
  CriticalPath path_;
  double time_us_ = 0;  // where the walk is: everything after it has its step
};

std::string place_of(const PathStep& step) {
  if (step.destination < 0) return fmt::format("rank {}", step.rank);
  return fmt::format("rank {} -> {}", step.rank, step.destination);
}

}  // namespace

double CriticalPath::duration_us() const {
  return steps.empty() ? 0 : steps.back().end_us - steps.front().begin_us;
}

std::map<std::string, double> CriticalPath::us_by_name() const {
  std::map<std::string, double> sums;
  for (const PathStep& step : steps) sums[step.name] += step.end_us - step.begin_us;
  return sums;
}

std::map<std::string, double> CriticalPath::us_by_place() const {
  std::map<std::string, double> sums;
  for (const PathStep& step : steps) sums[place_of(step)] += step.end_us - step.begin_us;
  return sums;
}

CriticalPath critical_path(const DataflowGraph& graph) { return Walker(graph).walk(); }

Json to_json(const CriticalPath& path, const DataflowGraph& graph) {
  const double origin = graph.begin_us();
  Json result = {{"duration_us", path.duration_us()},
                 {"us_by_name", path.us_by_name()},
                 {"us_by_place", path.us_by_place()},
                 {"steps", Json::array()}};
  for (const PathStep& step : path.steps) {
    Json entry = {{"name", step.name}, {"rank", step.rank}};
    if (step.destination >= 0) entry["destination"] = step.destination;
    if (step.layer >= 0) entry["layer"] = step.layer;
    if (!step.direction.empty()) entry["direction"] = step.direction;
    entry["begin_us"] = step.begin_us - origin;
    entry["end_us"] = step.end_us - origin;
    result["steps"].push_back(std::move(entry));
  }
  return result;
}

}  // namespace atl
