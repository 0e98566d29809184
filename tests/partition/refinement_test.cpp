// Tests of what lowers the number of halo rows behind a cut: counts against a recount, bounds,
// optimal cuts of small graphs by trying all, and independence of threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <limits>
#include <set>

#include "base/philox.hpp"
#include "partition/climb.hpp"
#include "partition/cut_weight.hpp"
#include "partition/halo_rows.hpp"
#include "partition/multilevel.hpp"
#include "partition/transpose.hpp"
#include "tests/partition/example_graphs.hpp"
#include "tests/support/random_graph.hpp"

namespace atl {
namespace {

using Parts = std::vector<std::int32_t>;

std::uint32_t draw(std::uint64_t seed, std::uint64_t i, std::uint32_t below) {
  const RandomKey key{seed, RandomStream::kPartition, 0, 0};
  return static_cast<std::uint32_t>(std::uint64_t{random_bits(key, i, 0)} * below >> 32U);
}

// Gains are exact where no edge is there twice.
Csr without_duplicates(const Csr& csr) {
  Csr result;
  for (std::int64_t v = 0; v < csr.view().rows(); ++v) {
    std::vector<std::int32_t> row = to_vector(csr.view().row(v));
    std::ranges::sort(row);
    row.erase(std::unique(row.begin(), row.end()), row.end());
    result.col_idx.insert(result.col_idx.end(), row.begin(), row.end());
    result.row_ptr.push_back(static_cast<std::int64_t>(result.col_idx.size()));
  }
  return result;
}

Parts random_parts(std::int64_t nodes, int parts, std::uint64_t seed) {
  Parts part_of(static_cast<std::size_t>(nodes));
  for (std::size_t v = 0; v < part_of.size(); ++v) {
    part_of[v] = static_cast<std::int32_t>(
        v < static_cast<std::size_t>(parts) ? v : draw(seed, v, static_cast<std::uint32_t>(parts)));
  }
  return part_of;
}

// Rows that training sends, one direction of a symmetric graph, both of a directed one: every pair
// of a node and another part with a node that reads it.
std::int64_t count_rows(const GraphView& graph, const Parts& part_of) {
  std::set<std::pair<std::int32_t, std::int32_t>> forward;
  std::set<std::pair<std::int32_t, std::int32_t>> backward;
  for (std::int32_t v = 0; v < graph.nodes(); ++v) {
    for (const std::int32_t u : graph.in_edges.row(v)) {
      if (part_of[u] == part_of[v]) continue;
      forward.emplace(u, part_of[v]);
      backward.emplace(v, part_of[u]);
    }
  }
  return static_cast<std::int64_t>(forward.size() + (graph.symmetric ? 0 : backward.size()));
}

struct Directions {
  explicit Directions(const GraphView& graph) : reversed(transpose(graph.in_edges)) {
    const CsrView in = graph.in_edges;
    if (graph.symmetric) {
      nets = {{in, in, true}};
    } else {
      nets = {{reversed.view(), in, true}, {in, reversed.view(), true}};
    }
  }
  Csr reversed;
  std::vector<Nets> nets;
};

PartLoads no_limits(const Parts& part_of, const std::vector<std::int32_t>& weights, int parts) {
  return {1, weights, std::vector<double>(static_cast<std::size_t>(parts), 1e18), part_of};
}

TEST(HaloRows, GainsAndCountsAreThoseOfARecount) {
  for (const int parts : {2, 3, 7, 70}) {
    for (const bool directed : {false, true}) {
      const Csr csr = without_duplicates(random_graph(140, 5, directed, false, 11));
      const GraphView graph{csr.view(), !directed};
      Parts part_of = random_parts(140, parts, 3);
      const Directions directions(graph);
      HaloRows rows(directions.nets, part_of, parts);
      EXPECT_EQ(rows.rows(), count_rows(graph, part_of));
      const std::vector<std::int32_t> weights(140, 1);
      for (std::uint64_t i = 0; i < 400; ++i) {
        const auto node = static_cast<std::int32_t>(draw(5, i, 140));
        const PartLoads loads = no_limits(part_of, weights, parts);
        const Proposal best = rows.best(node, loads, /*any=*/true);
        ASSERT_GE(best.to, 0);
        const std::int64_t before = count_rows(graph, part_of);
        std::int64_t most = std::numeric_limits<std::int64_t>::min();
        for (int to = 0; to < parts; ++to) {
          if (to == part_of[node]) continue;
          Parts moved = part_of;
          moved[node] = to;
          most = std::max(most, before - count_rows(graph, moved));
        }
        EXPECT_EQ(best.gain, most);
        if (most > 0) {
          EXPECT_TRUE(rows.may_gain(node));
          EXPECT_EQ(rows.best(node, loads, /*any=*/false).gain, most);
        }
        // Anywhere, not only where it is best.
        const auto to = static_cast<std::int32_t>(draw(6, i, static_cast<std::uint32_t>(parts)));
        if (to != part_of[node]) rows.move(node, to);
        ASSERT_EQ(rows.rows(), count_rows(graph, part_of)) << i;
      }
    }
  }
}

TEST(HaloRows, DuplicateEdgesAreOneRow) {
  const DirectedExample example;
  Parts part_of = example.part_of;
  const Directions directions(example.graph());
  HaloRows rows(directions.nets, part_of, 3);
  EXPECT_EQ(rows.rows(), count_rows(example.graph(), part_of));
  for (const auto& [node, to] : {std::pair{2, 0}, {4, 0}, {1, 2}, {2, 1}, {1, 0}}) {
    rows.move(node, to);
    EXPECT_EQ(rows.rows(), count_rows(example.graph(), part_of));
  }
}

TEST(HaloRows, CommunitiesHaveTheRowsOfTheirNodes) {
  for (const bool directed : {false, true}) {
    const Csr csr = random_graph(300, 4, directed, false, 5);
    const GraphView graph{csr.view(), !directed};
    const Directions directions(graph);
    Communities communities;
    communities.count = 40;
    for (std::uint64_t v = 0; v < 300; ++v) {
      communities.of.push_back(static_cast<std::int32_t>(v < 40 ? v : draw(1, v, 40)));
    }
    std::vector<Csr> pins;
    std::vector<Csr> nets_of;
    std::vector<Nets> nets;
    for (const Nets& direction : directions.nets) {
      pins.push_back(contract_nets(direction.pins, true, communities.of));
      nets_of.push_back(transpose(pins.back().view(), 40));
    }
    for (std::size_t i = 0; i < pins.size(); ++i) {
      nets.push_back({pins[i].view(), nets_of[i].view(), false});
    }
    Parts part_of = random_parts(40, 5, 2);
    const auto apart = [&] {
      Parts below;
      for (const std::int32_t community : communities.of) below.push_back(part_of[community]);
      return below;
    };
    HaloRows rows(nets, part_of, 5);
    for (std::uint64_t i = 0; i < 100; ++i) {
      EXPECT_EQ(rows.rows(), count_rows(graph, apart()));
      const auto node = static_cast<std::int32_t>(draw(8, i, 40));
      const auto to = static_cast<std::int32_t>(draw(9, i, 5));
      if (to != part_of[node]) rows.move(node, to);
    }
  }
}

TEST(CutWeight, GainsAreThoseOfARecount) {
  const Csr csr = random_graph(80, 5, /*directed=*/true, /*weighted=*/false, 4);
  const Csr reversed = transpose(csr.view());
  const std::vector<std::int32_t> weights(80, 1);
  const GraphLevel graph{csr.view(), reversed.view(), {}, weights, 1};
  Parts part_of = random_parts(80, 4, 1);
  CutWeight cut(graph, part_of, 4);
  const auto cut_edges = [&] {
    std::int64_t edges = 0;
    for (std::int32_t v = 0; v < 80; ++v) {
      for (const std::int32_t u : csr.view().row(v)) edges += part_of[u] != part_of[v] ? 1 : 0;
    }
    return edges;
  };
  for (std::int32_t node = 0; node < 80; ++node) {
    const PartLoads loads = no_limits(part_of, weights, 4);
    const Proposal best = cut.best(node, loads, true);
    const std::int64_t before = cut_edges();
    cut.move(node, best.to);
    EXPECT_EQ(before - cut_edges(), best.gain);
  }
}

TEST(Communities, StayWithinBoundsAndParts) {
  const Csr csr = random_graph(3000, 6, false, false, 2);
  std::vector<std::int32_t> weights;
  for (std::uint64_t v = 0; v < 3000; ++v) weights.push_back(1 + static_cast<int>(draw(3, v, 9)));
  const GraphLevel graph{csr.view(), {}, {}, weights, 1};
  const Parts part_of = random_parts(3000, 3, 7);
  for (const bool restricted : {false, true}) {
    const std::vector<std::int64_t> bounds{40};
    const Communities found = find_communities(
        graph, bounds,
        restricted ? std::span<const std::int32_t>(part_of) : std::span<const std::int32_t>{}, 3,
        1);
    EXPECT_LT(found.count, 1500);
    std::vector<std::int64_t> sums(static_cast<std::size_t>(found.count), 0);
    std::vector<std::set<std::int32_t>> parts(static_cast<std::size_t>(found.count));
    std::int32_t next = 0;
    for (std::size_t v = 0; v < 3000; ++v) {
      ASSERT_LE(found.of[v], next);  // numbered in the order of first nodes
      if (found.of[v] == next) ++next;
      sums[found.of[v]] += weights[v];
      parts[found.of[v]].insert(part_of[v]);
    }
    EXPECT_EQ(next, found.count);
    EXPECT_LE(*std::ranges::max_element(sums), 40);
    if (restricted) {
      EXPECT_TRUE(std::ranges::all_of(parts, [](const auto& set) { return set.size() == 1; }));
    }
  }
}

TEST(Communities, ContractionKeepsWeights) {
  for (const bool directed : {false, true}) {
    const Csr csr = random_graph(200, 6, directed, /*weighted=*/false, 3);
    const Csr reversed = transpose(csr.view());
    const std::vector<std::int32_t> weights(400, 3);
    const GraphLevel graph{csr.view(), directed ? reversed.view() : CsrView{}, {}, weights, 2};
    Communities communities;
    communities.count = 17;
    for (std::uint64_t v = 0; v < 200; ++v) {
      communities.of.push_back(static_cast<std::int32_t>(v < 17 ? v : draw(2, v, 17)));
    }
    std::vector<std::int64_t> expected(17 * 17, 0);
    for (std::int32_t v = 0; v < 200; ++v) {
      for (const std::int32_t u : csr.view().row(v)) {
        const std::int32_t a = communities.of[v];
        const std::int32_t b = communities.of[u];
        if (a == b) continue;
        ++expected[a * 17 + b];
        if (directed) ++expected[b * 17 + a];
      }
    }
    const ContractedGraph contracted = contract(graph, communities);
    std::vector<std::int64_t> found(17 * 17, 0);
    for (std::int32_t c = 0; c < 17; ++c) {
      contracted.level().for_each_neighbour(
          c, [&](std::int32_t d, std::int64_t weight) { found[c * 17 + d] += weight; });
    }
    EXPECT_EQ(found, expected);
    std::int64_t sum = 0;
    for (const std::int32_t w : contracted.node_weights) sum += w;
    EXPECT_EQ(sum, 400 * 3);
  }
}

PartitionProblem problem_of(const GraphView& graph, int parts, PartitionOptions options = {}) {
  std::vector<std::uint8_t> split(static_cast<std::size_t>(graph.nodes()), 1);
  for (std::size_t v = 0; v < split.size(); v += 3) split[v] = 0;
  return make_partition_problem(graph, parts, options, split);
}

// All cuts of nine nodes: what is refined is never better than the best and never worse than it
// was, and the best cuts stay as good as they are.
TEST(Refinement, OfSmallGraphsAgainstAllCuts) {
  constexpr int kNodes = 9;
  for (const int parts : {2, 3}) {
    for (const bool directed : {false, true}) {
      for (const unsigned seed : {1, 2, 3, 4}) {
        const Csr csr = random_graph(kNodes, 2, directed, false, seed);
        const GraphView graph{csr.view(), !directed};
        PartitionOptions options;
        options.balance = PartitionBalance::kNodes;
        options.imbalance = 0.34;
        const PartitionProblem problem = problem_of(graph, parts, options);
        const auto within = [&](const Parts& part_of) {
          std::vector<int> sizes(static_cast<std::size_t>(parts), 0);
          for (const std::int32_t part : part_of) ++sizes[part];
          return *std::ranges::min_element(sizes) > 0 &&
                 *std::ranges::max_element(sizes) <= 1.34 * kNodes / parts;
        };
        std::vector<std::pair<std::int64_t, Parts>> cuts;
        std::int64_t all = 1;
        for (int i = 0; i < kNodes; ++i) all *= parts;
        for (std::int64_t code = 0; code < all; ++code) {
          Parts part_of;
          for (std::int64_t rest = code; part_of.size() < kNodes; rest /= parts) {
            part_of.push_back(static_cast<std::int32_t>(rest % parts));
          }
          if (within(part_of)) cuts.emplace_back(count_rows(graph, part_of), part_of);
        }
        const std::int64_t best =
            std::ranges::min(cuts, {}, [](const auto& c) { return c.first; }).first;
        const Multilevel multilevel(problem);
        for (std::size_t i = 0; i<cuts.size(); i += cuts.size()> 5000 ? 7 : 1) {
          Parts refined = cuts[i].second;
          multilevel.refine(refined);
          const std::int64_t rows = count_rows(graph, refined);
          EXPECT_TRUE(within(refined));
          EXPECT_GE(rows, best);
          EXPECT_LE(rows, cuts[i].first);
        }
      }
    }
  }
}

TEST(Refinement, LowersRowsWithinTheBoundOfEveryBalance) {
  for (const bool directed : {false, true}) {
    const Csr csr = random_graph(4000, 5, directed, false, 8);
    const GraphView graph{csr.view(), !directed};
    std::int64_t gained = 0;
    for (const char* balance : {"cost", "nodes", "edges", "edges,train"}) {
      for (const std::vector<double>& weights : {std::vector<double>{}, {1, 2, 3, 4}}) {
        PartitionOptions options;
        options.method = "metis";
        options.balance = parse_partition_balance(balance);
        options.weights = weights;
        options.refine = false;
        std::vector<std::uint8_t> split(4000, 1);
        for (std::size_t v = 0; v < split.size(); v += 3) split[v] = 0;
        const auto plain = partition_graph(graph, 4, options, split);
        options.refine = true;
        const auto refined = partition_graph(graph, 4, options, split);
        EXPECT_LE(count_rows(graph, refined), count_rows(graph, plain)) << balance;
        gained += count_rows(graph, plain) - count_rows(graph, refined);
        const PartitionProblem problem = make_partition_problem(graph, 4, options, split);
        // Without the heaviest node on top, which METIS needs.
        const auto loads = part_loads(problem, refined);
        const auto bounds = load_bounds(problem);
        for (std::size_t i = 0; i < loads.size(); ++i) {
          EXPECT_LE(static_cast<double>(loads[i]), bounds[i]) << balance;
        }
      }
    }
    EXPECT_GT(gained, 1000);
  }
}

TEST(Refinement, RelievesHeavyParts) {
  const Csr csr = random_graph(2000, 5, false, false, 8);
  const GraphView graph{csr.view(), true};
  PartitionOptions options;
  options.balance = PartitionBalance::kNodes;
  const PartitionProblem problem = problem_of(graph, 4, options);
  Parts part_of(2000, 0);
  for (int p = 1; p < 4; ++p) part_of[p] = p;
  Multilevel(problem).refine(part_of);
  std::vector<int> sizes(4, 0);
  for (const std::int32_t part : part_of) ++sizes[part];
  EXPECT_LE(*std::ranges::max_element(sizes), 515);
}

TEST(Refinement, AndCommunitiesAreTheSameForAnyThreads) {
  const Csr csr = random_graph(30000, 5, false, false, 6);
  const GraphView graph{csr.view(), true};
  const int before = omp_get_max_threads();
  for (const char* method : {"communities", "metis"}) {
    PartitionOptions options;
    options.method = method;
    options.cuts = 1;
    omp_set_num_threads(1);
    const Parts one = partition_graph(graph, 5, options, {});
    for (const int threads : {2, 3}) {
      omp_set_num_threads(threads);
      EXPECT_EQ(one, partition_graph(graph, 5, options, {})) << method << " " << threads;
    }
  }
  omp_set_num_threads(before);
}

TEST(Refinement, IsOffForCutsThatAreWantedAsTheyAre) {
  EXPECT_TRUE(refines_by_default("auto"));
  EXPECT_TRUE(refines_by_default("metis"));
  EXPECT_TRUE(refines_by_default("communities"));
  EXPECT_FALSE(refines_by_default("random"));
  EXPECT_FALSE(refines_by_default("contiguous"));
  EXPECT_FALSE(refines_by_default("file"));
}

// Islands of cliques that few edges link: communities find them, and rows are as few as can be.
TEST(CommunityCuts, FindCliques) {
  constexpr std::int32_t kCliques = 1200;
  constexpr std::int32_t kSize = 10;
  Csr csr;
  for (std::int32_t v = 0; v < kCliques * kSize; ++v) {
    const std::int32_t first = v / kSize * kSize;
    if (v == first) csr.col_idx.push_back((v + kCliques * kSize - 1) % (kCliques * kSize));
    for (std::int32_t u = first; u < first + kSize; ++u) {
      if (u != v) csr.col_idx.push_back(u);
    }
    if (v == first + kSize - 1) csr.col_idx.push_back((v + 1) % (kCliques * kSize));
    csr.row_ptr.push_back(static_cast<std::int64_t>(csr.col_idx.size()));
  }
  const GraphView graph{csr.view(), true};
  PartitionOptions options;
  options.method = "communities";
  const Parts part_of = partition_graph(graph, 4, options, {});
  // A ring of cliques in four arcs: two rows at each of four places.
  EXPECT_LE(count_rows(graph, part_of), 24);
}

TEST(CommunityCuts, ObjectiveCutHasFewerEdgesBetweenParts) {
  const Csr csr = random_graph(8000, 6, false, false, 9);
  const GraphView graph{csr.view(), true};
  const auto edges_between = [&](const Parts& part_of) {
    std::int64_t edges = 0;
    for (std::int32_t v = 0; v < graph.nodes(); ++v) {
      for (const std::int32_t u : graph.in_edges.row(v)) edges += part_of[u] != part_of[v] ? 1 : 0;
    }
    return edges;
  };
  PartitionOptions options;
  options.method = "communities";
  options.objective = PartitionObjective::kCut;
  const Parts cut = partition_graph(graph, 4, options, {});
  EXPECT_LT(edges_between(cut), edges_between(random_parts(8000, 4, 1)) * 3 / 4);
}

}  // namespace
}  // namespace atl
