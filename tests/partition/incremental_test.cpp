#include "partition/incremental.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "base/mixed_bits.hpp"
#include "base/parallel.hpp"
#include "partition/multilevel.hpp"
#include "tests/partition/cut_support.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

using testing::HasSubstr;

// `nodes` nodes in `blocks` blocks, dealt in turns, so that the first ones are a smaller graph of
// the same kind. Six edges each, one of seven to any block. shuffled: blocks in another way.
Csr block_graph(std::int32_t nodes, int blocks, std::uint64_t seed, bool shuffled = false) {
  const auto block_of = [&](std::int32_t v) {
    return shuffled ? static_cast<int>(mixed_bits(seed, v) % blocks) : v % blocks;
  };
  std::vector<std::vector<std::int32_t>> members(static_cast<std::size_t>(blocks));
  std::vector<std::set<std::int32_t>> rows(static_cast<std::size_t>(nodes));
  for (std::int32_t v = 0; v < nodes; ++v) {
    const auto& own = members[block_of(v)];
    for (std::uint64_t e = 0; e < 6 && v > 0; ++e) {
      const std::uint64_t key = static_cast<std::uint64_t>(v) * 16 + e;
      const bool inside = draw(seed, 2 * key, 7) > 0 && !own.empty();
      const std::uint32_t count = static_cast<std::uint32_t>(inside ? std::ssize(own) : v);
      const auto drawn = static_cast<std::int32_t>(draw(seed, 2 * key + 1, count));
      const std::int32_t u = inside ? own[drawn] : drawn;
      rows[v].insert(u);
      rows[u].insert(v);
    }
    members[block_of(v)].push_back(v);
  }
  Csr csr;
  for (const auto& row : rows) {
    csr.col_idx.insert(csr.col_idx.end(), row.begin(), row.end());
    csr.row_ptr.push_back(static_cast<std::int64_t>(csr.col_idx.size()));
  }
  return csr;
}

// The graph of the first `nodes` nodes.
Csr first_nodes(const Csr& csr, std::int32_t nodes) {
  Csr result;
  for (std::int32_t v = 0; v < nodes; ++v) {
    for (const std::int32_t u : csr.view().row(v)) {
      if (u < nodes) result.col_idx.push_back(u);
    }
    result.row_ptr.push_back(static_cast<std::int64_t>(result.col_idx.size()));
  }
  return result;
}

// Nodes before with another row than now.
std::vector<std::uint8_t> changed_rows(const Csr& before, const Csr& now) {
  std::vector<std::uint8_t> touched;
  for (std::int64_t v = 0; v < before.view().rows(); ++v) {
    touched.push_back(to_vector(before.view().row(v)) == to_vector(now.view().row(v)) ? 0 : 1);
  }
  return touched;
}

// Rows of a cut that leaves out the nodes with the number `nowhere`: for every node and direction,
// the parts of the node and its readers, one after another, less one.
std::int64_t rows_of_placed(const GraphView& graph, const Parts& part_of, int nowhere) {
  std::vector<std::vector<std::set<int>>> parts(2, std::vector<std::set<int>>(part_of.size()));
  const auto add = [&](std::size_t d, std::int32_t net, std::int32_t pin) {
    if (part_of[pin] != nowhere) parts[d][net].insert(part_of[pin]);
  };
  for (std::int32_t v = 0; v < graph.nodes(); ++v) {
    for (const std::size_t d : {0, 1}) add(d, v, v);
    for (const std::int32_t u : graph.in_edges.row(v)) {
      add(0, u, v);
      add(1, v, u);
    }
  }
  if (graph.symmetric) parts.pop_back();
  std::int64_t sum = 0;
  for (const auto& direction : parts) {
    for (const auto& net : direction) sum += std::max<std::int64_t>(std::ssize(net), 1) - 1;
  }
  return sum;
}

// Nets of the node that have pins in parts.
std::int64_t nets_in_parts(const GraphView& graph, const Parts& part_of, std::int32_t node,
                           int nowhere) {
  // A part of the node's own is one more for each of them.
  Parts alone = part_of;
  alone[node] = nowhere + 1;
  return rows_of_placed(graph, alone, nowhere) - rows_of_placed(graph, part_of, nowhere);
}

class Placing : public testing::TestWithParam<bool> {};  // directed

TEST_P(Placing, TakesThePartWithTheLargestGain) {
  constexpr int kParts = 3;
  for (unsigned seed = 1; seed <= 8; ++seed) {
    const Csr csr = without_duplicates(random_graph(40, 2, GetParam(), false, seed));
    const GraphView graph{csr.view(), !GetParam()};
    PartitionOptions options;
    options.imbalance = 0.2;
    const PartitionProblem problem = make_partition_problem(graph, kParts, options, {});
    const GraphLevel level = finest_level(problem);
    Parts part_of = random_parts(40, kParts, seed);
    std::vector<std::int32_t> nodes;
    for (std::int32_t v = 25; v < 40; ++v) {
      part_of[v] = kParts;
      if (level.degree(v) > 0) nodes.push_back(v);
    }
    std::vector<double> limits = load_limits(problem, problem.imbalance);
    limits.push_back(0);
    PartLoads loads(1, problem.node_weights, limits, part_of);
    const std::vector<Nets> directions = nets_of(problem);
    HaloRows rows(directions, part_of, kParts + 1);
    const auto known = [&](std::int32_t v) {
      std::int64_t count = 0;
      level.for_each_neighbour(
          v, [&](std::int32_t u, std::int64_t) { count += part_of[u] < kParts ? 1 : 0; });
      return count;
    };
    std::size_t placed = 0;
    place_nodes(level, nodes, rows, loads, part_of, [&](std::int32_t node, int to) {
      ++placed;
      for (const std::int32_t other : nodes) {
        if (part_of[other] != kParts) continue;
        EXPECT_LE(std::pair(known(other), -other), std::pair(known(node), -node));
      }
      const std::int64_t before = rows_of_placed(graph, part_of, kParts);
      const std::int64_t nets = nets_in_parts(graph, part_of, node, kParts);
      const auto score = [&](int part) {
        Parts moved = part_of;
        moved[node] = part;
        const std::int64_t added = rows_of_placed(graph, moved, kParts) - before;
        const double load = static_cast<double>(loads.load(part, 0)) / limits[part];
        return static_cast<double>(nets - added) * (1 - load);
      };
      ASSERT_TRUE(loads.fits(node, to));
      for (int part = 0; part < kParts; ++part) {
        if (!loads.fits(node, part)) continue;
        EXPECT_GE(score(to), score(part) - 1e-9) << node;
      }
    });
    EXPECT_EQ(placed, nodes.size());
    EXPECT_EQ(rows.rows(), rows_of_placed(graph, part_of, kParts));
  }
}
INSTANTIATE_TEST_SUITE_P(BothKinds, Placing, testing::Bool());

TEST(IncrementalCut, CountsIndependentCycles) {
  const PathExample path;
  EXPECT_EQ(independent_cycles(path.graph()), 0);
  const Csr ring = cliques(5, 4, true);  // 6 edges each, 3 in a tree; the ring is one cycle more
  EXPECT_EQ(independent_cycles({ring.view(), true}), 5 * 3 + 1);
  const DirectedExample directed;  // 7 edges without the loop and its nodes in one piece
  EXPECT_EQ(independent_cycles(directed.graph()), 8 - 5);
}

// Six times as many nodes as at first, in steps, and the cut of each from the one before.
TEST(IncrementalCut, StaysNearAFreshCutForSixSteps) {
  constexpr int kParts = 4;
  const Csr all = block_graph(4200, 24, 5);
  std::int32_t nodes = 1800;
  Csr before = first_nodes(all, nodes);
  const GraphView first{before.view(), true};
  Parts part_of = partition_graph(first, kParts, {}, {});
  WholeCut whole{static_cast<double>(count_rows(first, part_of)), independent_cycles(first)};
  int extended = 0;
  for (int step = 0; step < 6; ++step) {
    nodes += 400;
    const Csr now = first_nodes(all, nodes);
    const GraphView graph{now.view(), true};
    const std::vector<std::uint8_t> touched = changed_rows(before, now);
    const GrownCut grown = grow_cut(graph, kParts, {}, {}, {part_of, touched, whole}, 1.1);
    EXPECT_EQ(grown.rows, count_rows(graph, grown.part_of));
    const PartitionProblem problem = make_partition_problem(graph, kParts, {}, {});
    EXPECT_TRUE(within_bounds(problem, grown.part_of));
    EXPECT_EQ(grow_cut(graph, kParts, {}, {}, {part_of, touched, whole}, 1.1).part_of,
              grown.part_of);
    extended += grown.by == GrownBy::kExtended ? 1 : 0;
    part_of = grown.part_of;
    whole = grown.whole;
    before = now;
  }
  EXPECT_GE(extended, 3);
  const GraphView last{before.view(), true};
  const std::int64_t fresh = count_rows(last, partition_graph(last, kParts, {}, {}));
  EXPECT_LE(static_cast<double>(count_rows(last, part_of)), 1.1 * static_cast<double>(fresh));
}

TEST(IncrementalCut, CutsAnewWhereTheGraphIsAnother) {
  constexpr int kParts = 4;
  const Csr old = block_graph(1500, 16, 5);
  const GraphView before{old.view(), true};
  const Parts part_of = partition_graph(before, kParts, {}, {});
  const WholeCut whole{static_cast<double>(count_rows(before, part_of)),
                       independent_cycles(before)};
  const Csr now = block_graph(1600, 16, 5, /*shuffled=*/true);
  const GraphView graph{now.view(), true};
  const std::vector<std::uint8_t> touched = changed_rows(old, now);
  const CutBefore known{part_of, touched, whole};
  const std::int64_t fresh = count_rows(graph, partition_graph(graph, kParts, {}, {}));

  const GrownCut usual = grow_cut(graph, kParts, {}, {}, known, 1.1);
  EXPECT_NE(usual.by, GrownBy::kExtended);
  EXPECT_LE(static_cast<double>(usual.rows), 1.1 * static_cast<double>(fresh));
  EXPECT_GT(usual.extended_rows, usual.rows);
  EXPECT_EQ(usual.whole.cycles, independent_cycles(graph));
  // Where nothing but the fresh cut itself will do.
  const GrownCut anew = grow_cut(graph, kParts, {}, {}, known, 0.5);
  EXPECT_NE(anew.by, GrownBy::kExtended);
  EXPECT_LE(anew.rows, fresh);
  EXPECT_EQ(anew.whole.rows, static_cast<double>(fresh));
  // Where anything does.
  const GrownCut extended = grow_cut(graph, kParts, {}, {}, known, 100);
  EXPECT_EQ(extended.by, GrownBy::kExtended);
  EXPECT_EQ(extended.whole.cycles, whole.cycles);
}

TEST(IncrementalCut, LeavesNodesAloneThatNothingHappenedTo) {
  const Csr old = cliques(8, 12, /*ring=*/false);
  Csr now = old;  // and a node of no clique, one that hangs on the first clique
  for (int i = 0; i < 2; ++i) now.row_ptr.push_back(now.row_ptr.back());
  now.col_idx.insert(now.col_idx.begin() + now.row_ptr[1], 97);
  for (std::size_t v = 1; v < now.row_ptr.size(); ++v) ++now.row_ptr[v];
  now.col_idx.push_back(0);
  ++now.row_ptr.back();
  Parts part_of;
  for (std::int32_t v = 0; v < 96; ++v) part_of.push_back(v / 24);
  const std::vector<std::uint8_t> touched = changed_rows(old, now);
  EXPECT_EQ(std::accumulate(touched.begin(), touched.end(), 0), 1);
  const GrownCut grown =
      grow_cut({now.view(), true}, 4, {}, {}, {part_of, touched, {0, 55 * 8}}, 1.1);
  EXPECT_EQ(grown.moved, 0);
  EXPECT_EQ(grown.rows, 0);
  EXPECT_EQ(grown.part_of[97], 0);
  EXPECT_NE(grown.part_of[96], 0);  // the emptiest parts are others
}

// Nodes whose edges are gone go where there is room.
TEST(IncrementalCut, DealsNodesThatLeft) {
  const Csr old = cliques(8, 12, /*ring=*/false);
  Csr now;  // the first four cliques are gone
  for (std::int32_t v = 0; v < 96; ++v) {
    if (v >= 48) {
      const auto row = old.view().row(v);
      now.col_idx.insert(now.col_idx.end(), row.begin(), row.end());
    }
    now.row_ptr.push_back(static_cast<std::int64_t>(now.col_idx.size()));
  }
  Parts part_of;
  for (std::int32_t v = 0; v < 96; ++v) part_of.push_back(v / 24);
  const std::vector<std::uint8_t> touched = changed_rows(old, now);
  PartitionOptions options;
  options.balance = PartitionBalance::kNodes;
  const GrownCut grown =
      grow_cut({now.view(), true}, 4, options, {}, {part_of, touched, {10, 100}}, 1.1);
  EXPECT_TRUE(
      within_bounds(make_partition_problem({now.view(), true}, 4, options, {}), grown.part_of));
  EXPECT_EQ(grown.rows, 0);
  EXPECT_EQ(grown.moved, 0);
  options.balance = PartitionBalance::kEdges;
  const GrownCut by_edges =
      grow_cut({now.view(), true}, 4, options, {}, {part_of, touched, {100, 100}}, 1.1);
  EXPECT_TRUE(
      within_bounds(make_partition_problem({now.view(), true}, 4, options, {}), by_edges.part_of));
}

TEST(IncrementalCut, KnowsIslandsSharesAndOrders) {
  const Csr all = block_graph(1200, 24, 3);
  const Csr old = first_nodes(all, 1000);
  for (const bool islands : {false, true}) {
    PartitionOptions options;
    options.weights = {1, 2, 1, 2};
    options.part_order = {2, 0, 3, 1};
    if (islands) options.islands = {2, 2};
    const GraphView before{old.view(), true};
    const GraphView graph{all.view(), true};
    const Parts part_of = partition_graph(before, 4, options, {});
    const WholeCut whole{static_cast<double>(count_rows(before, part_of)),
                         independent_cycles(before)};
    const std::vector<std::uint8_t> touched = changed_rows(old, all);
    const GrownCut grown = grow_cut(graph, 4, options, {}, {part_of, touched, whole}, 1.5);
    EXPECT_EQ(grown.by, GrownBy::kExtended);
    EXPECT_TRUE(within_bounds(make_partition_problem(graph, 4, options, {}), grown.part_of));
    EXPECT_LT(grown.moved, 200);
  }
}

TEST(IncrementalCut, IsTheSameForAnyNumberOfThreads) {
  const Csr all = block_graph(24'000, 60, 7);
  const Csr old = first_nodes(all, 21'000);
  const Parts part_of = quick_cut(make_partition_problem({old.view(), true}, 4, {}, {}));
  const std::vector<std::uint8_t> touched = changed_rows(old, all);
  std::vector<Parts> cuts;
  for (const int count : {1, 3}) {
    const ParallelThreads threads(count);
    for (const double drift : {1.0, 100.0}) {
      cuts.push_back(extend_cut(make_partition_problem({all.view(), true}, 4, {}, {}),
                                {part_of, touched, {}}, drift * 1e9));
      cuts.push_back(quick_cut(make_partition_problem({all.view(), true}, 4, {}, {})));
    }
  }
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(cuts[i], cuts[i + 4]);
}

TEST(IncrementalCut, RefusesOptionsThatNoCutGrowsBy) {
  const auto message = [](const PartitionOptions& options) {
    const Error error = thrown_error([&] { check_growth_options(options); });
    EXPECT_EQ(error.exit_code(), 2);
    return std::string(error.what());
  };
  PartitionOptions options;
  options.method = "contiguous";
  EXPECT_THAT(message(options), HasSubstr("--method: contiguous found with --from"));
  options = {};
  options.objective = PartitionObjective::kCut;
  EXPECT_THAT(message(options), HasSubstr("--objective: cut found with --from"));
  options = {};
  options.marginal_cost = 0.5;
  EXPECT_THAT(message(options), HasSubstr("--marginal-cost: 0.5 found with --from"));
}

}  // namespace
}  // namespace atl
