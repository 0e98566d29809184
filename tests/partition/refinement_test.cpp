// Tests of what lowers the number of halo rows behind a cut: counts against a recount, bounds,
// optimal cuts of small graphs by trying all, and independence of threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <tuple>

#include "base/parallel.hpp"
#include "partition/climb.hpp"
#include "partition/cut_weight.hpp"
#include "partition/halo_rows.hpp"
#include "partition/multilevel.hpp"
#include "partition/transpose.hpp"
#include "tests/partition/cut_support.hpp"
#include "tests/support/random_graph.hpp"

namespace atl {
namespace {

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
    std::vector<ContractedNets> contracted;
    std::vector<Csr> nets_of;
    std::vector<Nets> nets;
    for (const Nets& direction : directions.nets) {
      contracted.push_back(contract_nets(direction.pins, true, {}, communities.of));
      nets_of.push_back(transpose(contracted.back().pins.view(), 40));
    }
    for (std::size_t i = 0; i < contracted.size(); ++i) {
      nets.push_back({contracted[i].pins.view(), nets_of[i].view(), false, contracted[i].weights});
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

TEST(HaloRows, EqualNetsAreOneThatWeighsAsMuch) {
  // Rows of nodes 0 and 1 are read by community 1, those of 2 and 3 by 0, that of 4 by its own.
  const std::vector<std::int64_t> row_ptr{0, 1, 2, 3, 4, 5};
  const std::vector<std::int32_t> readers{2, 3, 0, 1, 4};
  const std::vector<std::int32_t> community_of{0, 0, 1, 1, 2};
  const ContractedNets once =
      contract_nets({row_ptr, readers, {}}, /*with_itself=*/true, {}, community_of);
  EXPECT_EQ(once.pins.row_ptr, (std::vector<std::int64_t>{0, 2}));
  EXPECT_EQ(once.pins.col_idx, (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(once.weights, (std::vector<std::int32_t>{4}));
  // Weights go on to the next level.
  const std::vector<std::int32_t> swapped{1, 0, 2};
  const ContractedNets twice =
      contract_nets(once.pins.view(), /*with_itself=*/false, once.weights, swapped);
  EXPECT_EQ(twice.weights, once.weights);
  EXPECT_EQ(twice.pins.col_idx, once.pins.col_idx);
}

TEST(CutWeight, GainsAreThoseOfARecount) {
  const Csr csr = random_graph(80, 5, /*directed=*/true, /*weighted=*/false, 4);
  const Csr reversed = transpose(csr.view());
  const std::vector<std::int32_t> weights(80, 1);
  const GraphLevel graph{csr.view(), reversed.view(), {}, weights, 1};
  Parts part_of = random_parts(80, 4, 1);
  CutWeight cut(graph, part_of, 4);
  const auto cut_edges = [&] { return count_cut_edges({csr.view(), false}, part_of); };
  for (std::int32_t node = 0; node < 80; ++node) {
    const PartLoads loads = no_limits(part_of, weights, 4);
    const Proposal best = cut.best(node, loads, true);
    const std::int64_t before = cut_edges();
    cut.move(node, best.to);
    EXPECT_EQ(before - cut_edges(), best.gain);
  }
}

PartitionProblem problem_of(const GraphView& graph, int parts, PartitionOptions options = {}) {
  std::vector<std::uint8_t> split(static_cast<std::size_t>(graph.nodes()), 1);
  for (std::size_t v = 0; v < split.size(); v += 3) split[v] = 0;
  return make_partition_problem(graph, parts, options, split);
}

// From all cuts of nine nodes: what is refined is never worse than it was, can't be improved by one
// more move, and often is the best there is, from wherever it started.
TEST(Refinement, OfSmallGraphsAgainstAllCuts) {
  constexpr int kNodes = 9;
  std::int64_t tried = 0;
  std::int64_t reached = 0;
  for (const int parts : {2, 3}) {
    for (const bool directed : {false, true}) {
      for (const unsigned seed : {1, 2, 3, 4}) {
        const Csr csr = without_duplicates(random_graph(kNodes, 2, directed, false, seed));
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
        for (std::size_t i = 0; i < cuts.size(); i += parts == 3 ? 37 : 1) {
          Parts refined = cuts[i].second;
          multilevel.refine(refined);
          const std::int64_t rows = count_rows(graph, refined);
          EXPECT_TRUE(within(refined));
          EXPECT_LE(rows, cuts[i].first);  // the best ones stay so
          ++tried;
          reached += rows == best ? 1 : 0;
          // No single node is left that would save a row.
          for (std::size_t v = 0; v < kNodes; ++v) {
            for (std::int32_t part = 0; part < parts; ++part) {
              Parts moved = refined;
              moved[v] = part;
              if (within(moved)) {
                EXPECT_GE(count_rows(graph, moved), rows);
              }
            }
          }
        }
      }
    }
  }
  EXPECT_GT(4 * reached, tried);
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
        options.refine = Refinement::kOff;
        std::vector<std::uint8_t> split(4000, 1);
        for (std::size_t v = 0; v < split.size(); v += 3) split[v] = 0;
        const auto plain = partition_graph(graph, 4, options, split);
        options.refine = Refinement::kOn;
        const auto refined = partition_graph(graph, 4, options, split);
        EXPECT_LE(count_rows(graph, refined), count_rows(graph, plain)) << balance;
        gained += count_rows(graph, plain) - count_rows(graph, refined);
        const PartitionProblem problem = make_partition_problem(graph, 4, options, split);
        // Without the heaviest node on top, which METIS needs.
        const auto loads = part_loads(problem, refined);
        const auto wanted = load_shares(problem);
        for (std::size_t i = 0; i < loads.size(); ++i) {
          EXPECT_LE(static_cast<double>(loads[i]), 1.03 * wanted[i]) << balance;
        }
      }
    }
    EXPECT_GT(gained, 1000);
  }
}

// The combined cut has fewer rows than both, whichever comes first.
TEST(Refinement, CombinesWhatIsBestInTwoCuts) {
  for (const bool directed : {false, true}) {
    const Csr csr = random_graph(12000, 3, directed, false, 8);
    const GraphView graph{csr.view(), !directed};
    PartitionOptions options;
    options.balance = PartitionBalance::kNodes;
    const PartitionProblem problem = problem_of(graph, 4, options);
    const Multilevel multilevel(problem);
    std::vector<Parts> cuts;
    std::vector<std::int64_t> rows;
    for (const std::uint64_t seed : {1, 2}) {
      PartitionProblem seeded = problem;
      seeded.seed = seed;
      cuts.push_back(cut_metis(seeded));
      multilevel.search(cuts.back());
      rows.push_back(count_rows(graph, cuts.back()));
      EXPECT_EQ(multilevel.rows(cuts.back()), rows.back());
    }
    const std::int64_t least = std::min(rows[0], rows[1]);
    const Parts combined = multilevel.combine(cuts[0], cuts[1]);
    EXPECT_LT(count_rows(graph, combined), least);
    EXPECT_EQ(combined, multilevel.combine(cuts[1], cuts[0]));
    EXPECT_TRUE(within_bounds(problem, combined));
    EXPECT_LE(count_rows(graph, multilevel.combine(combined, combined)),
              count_rows(graph, combined));
  }
}

// Whoever cut first, whatever is balanced, with levels to contract and without.
TEST(Refinement, StrongNeverHasMoreRows) {
  std::int64_t gained = 0;
  for (const std::int32_t nodes : {1500, 6500}) {
    for (const bool directed : {false, true}) {
      const Csr csr = random_graph(nodes, 3, directed, false, 4);
      const GraphView graph{csr.view(), !directed};
      for (const auto& [method, balance, weights] :
           {std::tuple{"auto", "cost", std::vector<double>{}},
            {"metis", "edges,train", std::vector<double>{}},
            {"random", "nodes", std::vector<double>{1, 2, 3}}}) {
        PartitionOptions options;
        options.method = method;
        options.balance = parse_partition_balance(balance);
        options.weights = weights;
        std::vector<std::uint8_t> split(static_cast<std::size_t>(nodes), 1);
        for (std::size_t v = 0; v < split.size(); v += 3) split[v] = 0;
        const Parts usual = partition_graph(graph, 3, options, split);
        options.refine = Refinement::kStrong;
        const Parts strong = partition_graph(graph, 3, options, split);
        const std::int64_t saved = count_rows(graph, usual) - count_rows(graph, strong);
        EXPECT_GE(saved, 0) << nodes << " " << directed << " " << method;
        gained += saved;
        EXPECT_TRUE(within_bounds(make_partition_problem(graph, 3, options, split), strong));
      }
    }
  }
  EXPECT_GT(gained, 100);
}

TEST(Refinement, StrongIsTheSameForAnyThreads) {
  const Csr csr = random_graph(21'000, 2, false, false, 6);
  const GraphView graph{csr.view(), true};
  PartitionOptions options;
  options.refine = Refinement::kStrong;
  const ParallelThreads one_thread(1);
  const Parts one = partition_graph(graph, 3, options, {});
  const ParallelThreads three_threads(3);
  EXPECT_EQ(one, partition_graph(graph, 3, options, {}));
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
  const Csr csr = random_graph(25000, 3, false, false, 6);
  const GraphView graph{csr.view(), true};
  for (const char* method : {"auto", "communities", "metis"}) {
    for (const auto objective : {PartitionObjective::kVolume, PartitionObjective::kCut}) {
      PartitionOptions options;
      options.method = method;
      options.objective = objective;
      options.cuts = 1;
      const ParallelThreads one_thread(1);
      const Parts one = partition_graph(graph, 5, options, {});
      const ParallelThreads three_threads(3);
      EXPECT_EQ(one, partition_graph(graph, 5, options, {}))
          << method << " " << to_string(objective);
    }
  }
}

// Behind what is searched in detail, `auto` has no more rows than either of its cuts.
TEST(Refinement, ComparesTheCutsOfLargerGraphs) {
  const Csr csr = random_graph(30'000, 120, /*directed=*/true, false, 6);
  const GraphView graph{csr.view(), false};
  ASSERT_FALSE(Multilevel::detailed(2 * graph.in_edges.nnz()));
  ASSERT_TRUE(Multilevel::compared(2 * graph.in_edges.nnz()));
  const auto cut = [&](const char* method, int threads) {
    PartitionOptions options;
    options.method = method;
    options.cuts = 1;
    const ParallelThreads set(threads);
    return partition_graph(graph, 3, options, {});
  };
  // Both directions: which other parts a node's row is read in, and which it reads.
  const auto rows = [&](const Parts& part_of) {
    std::vector<unsigned> read_in(part_of.size(), 0);
    std::vector<unsigned> reads(part_of.size(), 0);
    for (std::int32_t v = 0; v < graph.nodes(); ++v) {
      for (const std::int32_t u : graph.in_edges.row(v)) {
        read_in[u] |= 1U << part_of[v];
        reads[v] |= 1U << part_of[u];
      }
    }
    std::int64_t sum = 0;
    for (std::size_t v = 0; v < part_of.size(); ++v) {
      const unsigned own = 1U << part_of[v];
      sum += std::popcount(read_in[v] & ~own) + std::popcount(reads[v] & ~own);
    }
    return sum;
  };
  const Parts found = cut("auto", 1);
  EXPECT_LE(rows(found), std::min(rows(cut("metis", 1)), rows(cut("communities", 1))));
  EXPECT_EQ(found, cut("auto", 3));
}

TEST(Refinement, IsOffForCutsThatAreWantedAsTheyAre) {
  EXPECT_EQ(default_refinement("auto"), Refinement::kOn);
  EXPECT_EQ(default_refinement("metis"), Refinement::kOn);
  EXPECT_EQ(default_refinement("communities"), Refinement::kOn);
  EXPECT_EQ(default_refinement("random"), Refinement::kOff);
  EXPECT_EQ(default_refinement("contiguous"), Refinement::kOff);
  EXPECT_EQ(default_refinement("file"), Refinement::kOff);
}

}  // namespace
}  // namespace atl
