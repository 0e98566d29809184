// Tests of halo rows with prices: between islands, and of the parts that send and receive most.
#include "partition/priced_rows.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "base/parallel.hpp"
#include "partition/island_prices.hpp"
#include "partition/multilevel.hpp"
#include "partition/peak_prices.hpp"
#include "tests/partition/cut_support.hpp"
#include "tests/support/random_graph.hpp"

namespace atl {
namespace {

// Moves nodes about and compares costs and the best gain with a recount at the prices of the
// moment. check(part_of): called before every move.
template <typename Prices, typename Check>
void expect_gains_of_a_recount(const GraphView& graph, int parts, Prices& prices,
                               const Check& check) {
  const auto nodes = static_cast<std::uint32_t>(graph.nodes());
  Parts part_of = random_parts(nodes, parts, 3);
  const Directions directions(graph);
  PricedRows rows(directions.nets, part_of, parts, prices);
  const std::vector<std::int32_t> weights(nodes, 1);
  const auto cost = [&](const Parts& cut) {
    return weigh_rows(graph, cut, [&](std::size_t direction, int owner, int part) {
      return prices.of(direction, owner, part);
    });
  };
  for (std::uint64_t i = 0; i < 300; ++i) {
    check(part_of);
    const auto node = static_cast<std::int32_t>(draw(5, i, nodes));
    const Proposal best = rows.best(node, no_limits(part_of, weights, parts), /*any=*/true);
    const std::int64_t before = cost(part_of);
    ASSERT_EQ(rows.cost(), before) << i;
    std::int64_t most = std::numeric_limits<std::int64_t>::min();
    for (int to = 0; to < parts; ++to) {
      if (to == part_of[node]) continue;
      Parts moved = part_of;
      moved[node] = to;
      most = std::max(most, before - cost(moved));
    }
    ASSERT_EQ(best.gain, most) << i;
    const auto to = static_cast<std::int32_t>(draw(6, i, static_cast<std::uint32_t>(parts)));
    if (to != part_of[node]) rows.move(node, to);
  }
}

TEST(IslandPrices, GainsAndCostsAreThoseOfARecount) {
  for (const bool directed : {false, true}) {
    const Csr csr = without_duplicates(random_graph(120, 5, directed, false, 11));
    IslandPrices prices(std::vector<int>{2, 1, 3});
    EXPECT_EQ(prices.of(0, 0, 1), 1);
    EXPECT_EQ(prices.of(0, 1, 2), IslandPrices::kBetween);
    expect_gains_of_a_recount({csr.view(), !directed}, 6, prices, [](const Parts&) {});
  }
}

struct Peak {
  std::int64_t total = 0;
  std::int64_t peak = 0;
};

// All rows, and those of the part that sends or receives most, counted one by one.
Peak count_peak(const GraphView& graph, const Parts& part_of, int parts) {
  const auto count = static_cast<std::size_t>(parts);
  std::vector<std::vector<std::int64_t>> traffic(2, std::vector<std::int64_t>(2 * count, 0));
  Peak result;
  result.total = weigh_rows(graph, part_of, [&](std::size_t direction, int owner, int part) {
    ++traffic[direction][owner];
    ++traffic[direction][count + part];
    return 1;
  });
  for (const auto& rows : traffic) result.peak += *std::ranges::max_element(rows);
  return result;
}

TEST(PeakPrices, GainsAndCountsAreThoseOfARecount) {
  for (const bool directed : {false, true}) {
    const Csr csr = without_duplicates(random_graph(120, 5, directed, false, 11));
    const GraphView graph{csr.view(), !directed};
    PeakPrices prices(directed ? 2 : 1, 5);
    int moves = 0;
    expect_gains_of_a_recount(graph, 5, prices, [&](const Parts& part_of) {
      const Peak counted = count_peak(graph, part_of, 5);
      ASSERT_EQ(prices.total(), counted.total) << moves;
      ASSERT_EQ(prices.peak(), counted.peak) << moves;
      if (++moves % 50 == 0) prices.set_pressure(moves / 50);
    });
  }
}

TEST(PeakPrices, RiseTowardsTheFullestPart) {
  PeakPrices prices(1, 4);
  for (int i = 0; i < 800; ++i) prices.count(0, 0, 1, 1);
  for (int i = 0; i < 400; ++i) prices.count(0, 2, 3, 1);
  const std::int64_t alike = prices.of(0, 0, 1);
  EXPECT_EQ(prices.of(0, 2, 3), alike);
  prices.set_pressure(2);
  EXPECT_EQ(prices.of(0, 0, 1), 5 * alike);  // both ends are as full as any
  EXPECT_EQ(prices.of(0, 0, 3), 3 * alike + prices.of(0, 2, 3) / 2 - alike / 2);
  EXPECT_LT(100 * prices.of(0, 2, 3), 102 * alike);
  // The price follows what comes and goes.
  prices.count(0, 0, 1, -1);
  EXPECT_LT(prices.of(0, 0, 1), 5 * alike);
  EXPECT_EQ(prices.total(), 1199);
  EXPECT_EQ(prices.peak(), 799);
}

void expect_within_shares(const PartitionProblem& problem, const Parts& part_of) {
  const auto loads = part_loads(problem, part_of);
  const auto wanted = load_shares(problem);
  for (std::size_t i = 0; i < loads.size(); ++i) {
    EXPECT_LE(static_cast<double>(loads[i]), 1.03 * wanted[i]);
  }
}

// The fullest part has three in a hundred rows less, all together have no more than is allowed,
// bounds hold, and threads change nothing.
TEST(PeakPrices, EvenOutTheFullestPart) {
  for (const bool directed : {false, true}) {
    // With more nodes than descent looks at by one thread.
    const Csr csr = without_duplicates(random_graph(22000, 3, directed, false, 8));
    const GraphView graph{csr.view(), !directed};
    PartitionOptions options;
    options.method = "metis";
    const PartitionProblem problem = make_partition_problem(graph, 4, options, {});
    Parts cut = cut_metis(problem);
    const Multilevel multilevel(problem);
    multilevel.search(cut);
    Parts even = cut;
    const ParallelThreads one_thread(1);
    multilevel.even_out(even);
    const Peak start = count_peak(graph, cut, 4);
    const Peak end = count_peak(graph, even, 4);
    EXPECT_LT(static_cast<double>(end.peak), 0.97 * static_cast<double>(start.peak));
    EXPECT_LE(static_cast<double>(end.total),
              Multilevel::kMostRowsForPeak * static_cast<double>(start.total));
    expect_within_shares(problem, even);
    Parts again = cut;
    const ParallelThreads three_threads(3);
    multilevel.even_out(again);
    EXPECT_EQ(even, again);
  }
}

// Where all parts have as much, or nothing, nothing is there to gain.
TEST(PeakPrices, LeaveEvenCutsAlone) {
  const Csr ring = cliques(4, 20, /*ring=*/true);
  const Csr apart = cliques(4, 20, /*ring=*/false);
  Parts part_of;
  for (int v = 0; v < 80; ++v) part_of.push_back(v / 20);
  for (const Csr* csr : {&ring, &apart}) {
    const GraphView graph{csr->view(), true};
    const PartitionProblem problem = make_partition_problem(graph, 4, {}, {});
    Parts even = part_of;
    Multilevel(problem).even_out(even);
    EXPECT_EQ(even, part_of);
  }
}

std::int64_t weighted_rows(const GraphView& graph, const Parts& part_of,
                           const std::vector<int>& islands) {
  const IslandPrices prices(islands);
  return weigh_rows(graph, part_of, [&](std::size_t direction, int owner, int part) {
    return prices.of(direction, owner, part);
  });
}

// Cuts inside islands don't see rows to other islands; what follows does, within the bounds.
TEST(IslandPrices, RefinementLowersThem) {
  const std::vector<int> islands{3, 2};
  for (const bool directed : {false, true}) {
    const Csr csr = without_duplicates(random_graph(4000, 5, directed, false, 8));
    const GraphView graph{csr.view(), !directed};
    PartitionOptions options;
    options.islands = islands;
    options.refine = Refinement::kOff;
    const Parts plain = partition_graph(graph, 5, options, {});
    Parts refined = plain;
    const PartitionProblem problem = make_partition_problem(graph, 5, options, {});
    Multilevel(problem).refine_islands(refined);
    EXPECT_LT(100 * weighted_rows(graph, refined, islands),
              97 * weighted_rows(graph, plain, islands));
    expect_within_shares(problem, refined);
    // Cuts by islands end with it: it finds next to nothing more there.
    options.refine = Refinement::kOn;
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
