#include "engine/placement/min_cut.hpp"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/boykov_kolmogorov_max_flow.hpp>
#include <cmath>
#include <limits>

#include "base/error.hpp"

namespace atl {

namespace {

using Units = std::int64_t;
constexpr double kMostUnits = 0x1p51;  // all finite weights together, before they are rounded

using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
struct ArcData {
  Units capacity = 0;
  Units residual = 0;
  Traits::edge_descriptor reverse;
};
struct VertexData {
  Traits::edge_descriptor predecessor;
  boost::default_color_type color = boost::white_color;
  std::int64_t distance = 0;
};
using FlowGraph =
    boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, VertexData, ArcData>;

class Cut {
 public:
  explicit Cut(const CutProblem& problem)
      : problem_(problem), variables_(static_cast<int>(problem.if_one.size())) {
    check();
    choose_unit();
  }

  CutSolution solve() {
    // x = 1 is the side of the source. So what x = 0 costs is an arc from the source.
    FlowGraph graph(static_cast<std::size_t>(variables_) + 2);
    const int source = variables_, sink = variables_ + 1;
    for (int i = 0; i < variables_; ++i) {
      add_arc(graph, source, i, problem_.if_zero[i]);
      add_arc(graph, i, sink, problem_.if_one[i]);
    }
    for (const CutPair& pair : problem_.pairs) add_arc(graph, pair.high, pair.low, pair.weight);
    const Units flow = boost::boykov_kolmogorov_max_flow(
        graph, boost::get(&ArcData::capacity, graph), boost::get(&ArcData::residual, graph),
        boost::get(&ArcData::reverse, graph), boost::get(&VertexData::predecessor, graph),
        boost::get(&VertexData::color, graph), boost::get(&VertexData::distance, graph),
        boost::get(boost::vertex_index, graph), source, sink);
    CutSolution solution{.x = reached(graph, source),
                         .max_flow = static_cast<double>(flow) * unit_};
    ATOLL_ASSERT(flow < forbidden_, "every assignment is forbidden");
    ATOLL_ASSERT(cost<Units>(solution.x, [&](double w) { return units(w); }) == flow);
    solution.cost = cost<double>(solution.x, [](double w) { return w; });
    return solution;
  }

 private:
  void check() const {
    ATOLL_ASSERT(problem_.if_zero.size() == problem_.if_one.size());
    const auto is_weight = [](double weight) { return weight >= 0; };
    ATOLL_ASSERT(std::ranges::all_of(problem_.if_zero, is_weight));
    ATOLL_ASSERT(std::ranges::all_of(problem_.if_one, is_weight));
    for (const CutPair& pair : problem_.pairs) {
      ATOLL_ASSERT(pair.low >= 0 && pair.low < variables_ && pair.high >= 0 &&
                       pair.high < variables_ && pair.low != pair.high,
                   "pair ({}, {}) of {} variables", pair.low, pair.high, variables_);
      ATOLL_ASSERT(is_weight(pair.weight), "weight {}", pair.weight);
    }
  }

  // A power of two, so that it rounds no weight that has few digits.
  void choose_unit() {
    double sum = 0;
    const auto add = [&](double weight) { sum += std::isfinite(weight) ? weight : 0.0; };
    std::ranges::for_each(problem_.if_zero, add);
    std::ranges::for_each(problem_.if_one, add);
    for (const CutPair& pair : problem_.pairs) add(pair.weight);
    ATOLL_ASSERT(std::isfinite(sum));
    int exponent = 0;
    std::frexp(sum, &exponent);  // sum < 2^exponent
    unit_ = std::max(std::ldexp(1 / kMostUnits, exponent), std::numeric_limits<double>::min());
    // More than all finite weights together, each rounded by half a unit.
    forbidden_ = static_cast<Units>(kMostUnits) + 2 * variables_ +
                 static_cast<Units>(problem_.pairs.size()) + 1;
  }

  Units units(double weight) const {
    return std::isfinite(weight) ? std::llround(weight / unit_) : forbidden_;
  }

  void add_arc(FlowGraph& graph, int from, int to, double weight) const {
    if (weight == 0) return;
    const auto there = boost::add_edge(from, to, graph).first;
    const auto back = boost::add_edge(to, from, graph).first;
    graph[there].capacity = units(weight);
    graph[there].reverse = back;
    graph[back].reverse = there;
  }

  // Variables that the source reaches over arcs with capacity left: the smallest of all minimum
  // cuts.
  std::vector<std::uint8_t> reached(const FlowGraph& graph, int source) const {
    std::vector<std::uint8_t> seen(static_cast<std::size_t>(variables_) + 2, 0);
    std::vector<int> open = {source};
    seen[source] = 1;
    while (!open.empty()) {
      const int at = open.back();
      open.pop_back();
      for (const auto arc : boost::make_iterator_range(boost::out_edges(at, graph))) {
        const auto to = static_cast<int>(boost::target(arc, graph));
        if (graph[arc].residual == 0 || seen[to] != 0) continue;
        seen[to] = 1;
        open.push_back(to);
      }
    }
    seen.resize(static_cast<std::size_t>(variables_));
    return seen;
  }

  template <typename Sum, typename Value>
  Sum cost(const std::vector<std::uint8_t>& x, const Value& value) const {
    Sum sum = 0;
    for (int i = 0; i < variables_; ++i) {
      sum += value(x[i] != 0 ? problem_.if_one[i] : problem_.if_zero[i]);
    }
    for (const CutPair& pair : problem_.pairs) {
      if (x[pair.high] != 0 && x[pair.low] == 0) sum += value(pair.weight);
    }
    return sum;
  }

  const CutProblem& problem_;
  int variables_;
  double unit_ = 1;
  Units forbidden_ = 0;
};

}  // namespace

CutSolution minimise_cut(const CutProblem& problem) { return Cut(problem).solve(); }

}  // namespace atl
