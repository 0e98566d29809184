// Tests of halo rows that weigh more between islands.
#include "partition/island_rows.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "partition/multilevel.hpp"
#include "partition/transpose.hpp"
#include "tests/partition/cut_support.hpp"
#include "tests/support/random_graph.hpp"

namespace atl {
namespace {

std::int64_t weighted_rows(const GraphView& graph, const Parts& part_of,
                           const std::vector<int>& islands) {
  std::vector<int> island_of;
  for (std::size_t i = 0; i < islands.size(); ++i) {
    island_of.insert(island_of.end(), islands[i], static_cast<int>(i));
  }
  return weigh_rows(graph, part_of, [&](std::int32_t owner, std::int32_t reader) {
    return island_of[owner] == island_of[reader] ? 1 : IslandRows::kBetween;
  });
}

TEST(IslandRows, GainsAndCostsAreThoseOfARecount) {
  const std::vector<int> islands{2, 1, 3};
  constexpr int kParts = 6;
  for (const bool directed : {false, true}) {
    const Csr csr = without_duplicates(random_graph(120, 5, directed, false, 11));
    const Csr reversed = transpose(csr.view());
    const GraphView graph{csr.view(), !directed};
    std::vector<Nets> nets{{csr.view(), csr.view(), true}};
    if (directed) {
      nets = {{reversed.view(), csr.view(), true}, {csr.view(), reversed.view(), true}};
    }
    Parts part_of = random_parts(120, kParts, 3);
    IslandRows rows(nets, part_of, islands);
    const std::vector<std::int32_t> weights(120, 1);
    for (std::uint64_t i = 0; i < 300; ++i) {
      const auto node = static_cast<std::int32_t>(draw(5, i, 120));
      const PartLoads loads{1, weights, std::vector<double>(kParts, 1e18), part_of};
      const Proposal best = rows.best(node, loads, /*any=*/true);
      const std::int64_t before = weighted_rows(graph, part_of, islands);
      ASSERT_EQ(rows.cost(), before) << i;
      std::int64_t most = std::numeric_limits<std::int64_t>::min();
      for (int to = 0; to < kParts; ++to) {
        if (to == part_of[node]) continue;
        Parts moved = part_of;
        moved[node] = to;
        most = std::max(most, before - weighted_rows(graph, moved, islands));
      }
      ASSERT_EQ(best.gain, most) << i;
      const auto to = static_cast<std::int32_t>(draw(6, i, kParts));
      if (to != part_of[node]) rows.move(node, to);
    }
  }
}

// Cuts inside islands don't see rows to other islands; what follows does, within the bounds.
TEST(IslandRows, RefinementLowersThem) {
  const std::vector<int> islands{3, 2};
  for (const bool directed : {false, true}) {
    const Csr csr = without_duplicates(random_graph(4000, 5, directed, false, 8));
    const GraphView graph{csr.view(), !directed};
    PartitionOptions options;
    options.islands = islands;
    options.refine = false;
    const Parts plain = partition_graph(graph, 5, options, {});
    Parts refined = plain;
    const PartitionProblem problem = make_partition_problem(graph, 5, options, {});
    Multilevel(problem).refine_islands(refined);
    EXPECT_LT(100 * weighted_rows(graph, refined, islands),
              97 * weighted_rows(graph, plain, islands));
    const auto loads = part_loads(problem, refined);
    const auto wanted = load_shares(problem);
    for (std::size_t i = 0; i < loads.size(); ++i) {
      EXPECT_LE(static_cast<double>(loads[i]), 1.03 * wanted[i]);
    }
    // Cuts by islands end with it: it finds next to nothing more there.
    options.refine = true;
    const Parts made = partition_graph(graph, 5, options, {});
    Parts again = made;
    Multilevel(problem).refine_islands(again);
    const std::int64_t rows = weighted_rows(graph, made, islands);
    EXPECT_LT(100 * rows, 97 * weighted_rows(graph, plain, islands));
    EXPECT_GT(100 * weighted_rows(graph, again, islands), 99 * rows);
  }
}

}  // namespace
}  // namespace atl
