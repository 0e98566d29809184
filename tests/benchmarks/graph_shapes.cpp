#include "tests/benchmarks/graph_shapes.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "base/philox.hpp"
#include "datasets/degree_tail.hpp"

namespace atl {

namespace {

// The distribution function of ranks, F(r) = (sqrt(r + r0) - sqrt(r0)) / width, and its inverse.
// The largest weight is sqrt(nodes / r0) / 2 times the mean if r0 is small.
struct RankLaw {
  double r0;
  double root;
  double width;

  RankLaw(double nodes, double busiest)
      : r0(nodes / (4 * busiest * busiest)),
        root(std::sqrt(r0)),
        width(std::sqrt(nodes + r0) - root) {}
  double below(double rank) const { return (std::sqrt(rank + r0) - root) / width; }
  double rank_at(double uniform) const {
    const double shifted = root + uniform * width;
    return shifted * shifted - r0;
  }
};

// A factor without common divisor with `nodes`, so that rank * factor % nodes is a permutation.
std::int64_t spreading_factor(std::int64_t nodes) {
  auto factor = std::max<std::int64_t>(1, std::llround(static_cast<double>(nodes) * 0.618));
  while (std::gcd(factor, nodes) != 1) ++factor;
  return factor;
}

}  // namespace

RandomGraph make_graph(const BenchmarkShape& shape, double scale) {
  const auto nodes =
      std::max<std::int64_t>(64, std::llround(scale * static_cast<double>(shape.nodes)));
  const auto edges =
      std::max<std::int64_t>(nodes, std::llround(scale * static_cast<double>(shape.edges)));
  const std::vector<std::int64_t> hubs =
      hub_degrees(std::string("ogbn-") + shape.name,
                  static_cast<double>(nodes) / static_cast<double>(shape.nodes));
  const std::int64_t of_hubs = std::accumulate(hubs.begin(), hubs.end(), std::int64_t{0});
  const double mean = static_cast<double>(edges) / static_cast<double>(nodes);
  const double busiest = hubs.empty() ? shape.busiest : static_cast<double>(kHubDegree) / mean;
  const RankLaw law(static_cast<double>(nodes), busiest);
  const std::int64_t factor = spreading_factor(nodes);
  const auto id_of = [&](std::int64_t rank) { return rank * factor % nodes; };

  RandomGraph graph;
  graph.row_ptr.assign(static_cast<std::size_t>(nodes + 1), 0);
  for (std::int64_t placed = 0, rank = 0; rank < nodes; ++rank) {
    const auto share =
        law.below(static_cast<double>(rank + 1)) * static_cast<double>(edges - of_hubs);
    const std::int64_t until = rank + 1 == nodes
                                   ? edges - of_hubs
                                   : std::min(edges - of_hubs, std::int64_t{std::llround(share)});
    graph.row_ptr[id_of(rank) + 1] = until - placed;
    if (rank < std::ssize(hubs)) graph.row_ptr[id_of(rank) + 1] += hubs[rank];
    placed = until;
  }
  std::partial_sum(graph.row_ptr.begin(), graph.row_ptr.end(), graph.row_ptr.begin());

  graph.col_idx.resize(static_cast<std::size_t>(edges));
  for (std::int64_t e = 0; e < edges; e += 4) {
    const PhiloxBlock block =
        random_block({2, RandomStream::kGenerator}, static_cast<std::uint64_t>(e / 4), 0);
    for (std::int64_t k = 0; k < std::min<std::int64_t>(4, edges - e); ++k) {
      const double rank = law.rank_at(static_cast<double>(block[k]) * 0x1p-32);
      graph.col_idx[e + k] = static_cast<std::int32_t>(
          id_of(std::min(nodes - 1, static_cast<std::int64_t>(std::max(0.0, rank)))));
    }
  }
  return graph;
}

}  // namespace atl
