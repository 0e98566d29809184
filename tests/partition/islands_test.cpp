// Tests of cuts that know islands, and of the order of parts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/philox.hpp"
#include "partition/assignment.hpp"
#include "partition/partitioner.hpp"
#include "partition/quality.hpp"
#include "tests/partition/example_graphs.hpp"
#include "tests/support/random_graph.hpp"

namespace atl {
namespace {

using Parts = std::vector<std::int32_t>;

// Communities of `size` nodes, dealt out over the ids; node v is of community v % communities, and
// communities of equal parity of their number belong together: edges are most likely inside one,
// less among those that belong together, rare otherwise.
Csr nested_communities(int communities, int size, std::uint64_t seed) {
  const std::int32_t nodes = communities * size;
  const RandomKey key{seed, RandomStream::kPartition, 0, 0};
  const auto linked = [&](std::int32_t a, std::int32_t b) {
    const std::int32_t low = std::min(a, b) % communities;
    const std::int32_t high = std::max(a, b) % communities;
    const double chance = low == high ? 0.25 : (low % 2 == high % 2 ? 0.03 : 0.004);
    const std::uint32_t bits = random_bits(key, std::min(a, b), std::max(a, b));
    return a != b && bits < chance * 4294967296.0;
  };
  Csr csr;
  for (std::int32_t v = 0; v < nodes; ++v) {
    for (std::int32_t u = 0; u < nodes; ++u) {
      if (linked(v, u)) csr.col_idx.push_back(u);
    }
    csr.row_ptr.push_back(static_cast<std::int64_t>(csr.col_idx.size()));
  }
  return csr;
}

std::vector<double> costs_of_islands(const std::vector<int>& islands) {
  std::vector<int> island_of;
  for (std::size_t i = 0; i < islands.size(); ++i) {
    island_of.insert(island_of.end(), islands[i], static_cast<int>(i));
  }
  std::vector<double> costs;
  for (const int a : island_of) {
    for (const int b : island_of) costs.push_back(a == b ? 0 : 1);
  }
  return costs;
}

std::vector<std::int64_t> halo_matrix(const GraphView& graph, const Parts& part_of, int parts) {
  const LocalGraphBuilder builder(graph, part_of, parts);
  return measure_quality(builder, {}, normalised_shares({}, parts)).forward_rows;
}

TEST(Islands, FewerRowsOverTheSlowLinkThanFlat) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    const Csr csr = nested_communities(8, 60, seed);
    const GraphView graph{csr.view(), true};
    PartitionOptions options;
    options.seed = seed;
    const std::vector<double> costs = costs_of_islands({4, 4});
    const auto flat = halo_matrix(graph, partition_graph(graph, 8, options, {}), 8);
    options.islands = {4, 4};
    const Parts part_of = partition_graph(graph, 8, options, {});
    const auto nested = halo_matrix(graph, part_of, 8);
    const double slow = order_cost(nested, costs, std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7});
    // At least as good as the best of all orders of the flat cut's parts.
    EXPECT_LE(slow, best_part_order(flat, costs, 8).cost);
    // Neighbouring ranks on different hosts, as mpirun --map-by node has them, pay far more.
    EXPECT_LT(2 * slow, order_cost(flat, costs, std::vector<int>{0, 4, 1, 5, 2, 6, 3, 7}));
    // The two halves that belong together are found.
    std::int64_t even_in_first = 0;
    for (std::size_t v = 0; v < part_of.size(); ++v) {
      if (v % 8 % 2 == 0 && part_of[v] < 4) ++even_in_first;
    }
    EXPECT_TRUE(even_in_first < 12 || even_in_first > 228) << even_in_first << " of 240";
  }
}

// Every method, balance and shape of islands: valid, with all bounds of the whole, and repeatable.
TEST(Islands, EveryCutIsValid) {
  for (const std::vector<int>& islands :
       {std::vector<int>{2, 2}, {1, 3}, {3, 1}, {2, 1, 1}, {4}, {1, 1, 1, 1}}) {
    for (const std::int32_t nodes : {4, 9, 60, 257}) {
      for (const bool directed : {false, true}) {
        const Csr csr = random_graph(nodes, 4, directed, false, 7);
        const GraphView graph{csr.view(), !directed};
        std::vector<std::uint8_t> split(nodes, 1);
        for (std::int32_t v = 0; v < nodes; v += 2) split[v] = 0;
        for (const std::string& method : partition_methods()) {
          if (method == "file") continue;  // takes no islands
          for (const char* balance : {"cost", "nodes", "edges", "edges,train"}) {
            PartitionOptions options;
            options.method = method;
            options.balance = parse_partition_balance(balance);
            if (options.balance == PartitionBalance::kEdgesTrain &&
                (method != "metis" || nodes < 60)) {
              continue;  // one quantity only, or too few nodes for two
            }
            options.islands = islands;
            options.cuts = 1;
            const Parts part_of = partition_graph(graph, 4, options, split);
            const auto problem = make_partition_problem(graph, 4, options, split);
            EXPECT_NO_THROW(validate_partition(problem, part_of));
            EXPECT_EQ(part_of, partition_graph(graph, 4, options, split));
          }
        }
      }
    }
  }
}

TEST(Islands, SharesArePerPart) {
  const Csr csr = random_graph(2000, 6, false, false, 3);
  PartitionOptions options;
  options.balance = PartitionBalance::kNodes;
  options.weights = {1, 3, 2, 4};
  options.islands = {2, 2};
  const Parts part_of = partition_graph({csr.view(), true}, 4, options, {});
  const std::vector<double> wanted{200, 600, 400, 800};
  for (int part = 0; part < 4; ++part) {
    const auto nodes = static_cast<double>(std::ranges::count(part_of, part));
    EXPECT_LE(nodes, 1.031 * wanted[part] + 1);
    EXPECT_GE(nodes, 0.6 * wanted[part]);
  }
}

// A path of 12 nodes in ranges of ids: the cut of the islands is where the shares say.
TEST(Islands, RangesInsideRanges) {
  std::vector<std::int64_t> row_ptr{0};
  std::vector<std::int32_t> col_idx;
  for (std::int32_t v = 0; v < 12; ++v) {
    if (v > 0) col_idx.push_back(v - 1);
    if (v < 11) col_idx.push_back(v + 1);
    row_ptr.push_back(static_cast<std::int64_t>(col_idx.size()));
  }
  const GraphView graph{{row_ptr, col_idx, {}}, true};
  PartitionOptions options;
  options.method = "contiguous";
  options.balance = PartitionBalance::kNodes;
  options.islands = {3, 1};
  options.weights = {1, 1, 2, 2};
  EXPECT_EQ(partition_graph(graph, 4, options, {}), (Parts{0, 0, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3}));
}

TEST(Islands, OnesThatChangeNothingGiveTheFlatCut) {
  const Csr csr = random_graph(300, 5, false, false, 2);
  const GraphView graph{csr.view(), true};
  PartitionOptions options;
  const Parts flat = partition_graph(graph, 4, options, {});
  options.islands = {4};
  EXPECT_EQ(partition_graph(graph, 4, options, {}), flat);
  options.islands = {1, 1, 1, 1};
  EXPECT_EQ(partition_graph(graph, 4, options, {}), flat);
}

TEST(PartOrder, RenumbersTheParts) {
  const Csr csr = random_graph(300, 5, false, false, 2);
  const GraphView graph{csr.view(), true};
  for (const std::vector<int>& islands : {std::vector<int>{}, {2, 2}}) {
    PartitionOptions options;
    options.islands = islands;
    const Parts plain = partition_graph(graph, 4, options, {});
    options.part_order = {2, 0, 1, 3};
    const Parts renamed = partition_graph(graph, 4, options, {});
    for (std::size_t v = 0; v < plain.size(); ++v) {
      ASSERT_EQ(plain[v], options.part_order[renamed[v]]) << v;
    }
  }
}

TEST(PartOrder, WeightsAreOfTheResult) {
  const PathExample path;
  PartitionOptions options;
  options.method = "contiguous";
  options.balance = PartitionBalance::kNodes;
  options.weights = {3, 1, 2};
  options.part_order = {2, 0, 1};
  // The cut's parts 0, 1, 2 become 1, 2, 0, with shares 1, 2, 3 of six.
  EXPECT_EQ(partition_graph(path.graph(), 3, options, {}), (Parts{1, 2, 2, 0, 0, 0}));
}

// All options at once, with the order that best_part_order finds.
TEST(PartOrder, TheBestOneCostsWhatItSays) {
  const Csr csr = nested_communities(6, 40, 4);
  const GraphView graph{csr.view(), true};
  PartitionOptions options;
  options.marginal_cost = 0.5;
  const auto before = halo_matrix(graph, partition_graph(graph, 6, options, {}), 6);
  const std::vector<double> costs = costs_of_islands({3, 3});
  const PartOrder best = best_part_order(before, costs, 6);
  options.part_order = best.order;
  const auto after = halo_matrix(graph, partition_graph(graph, 6, options, {}), 6);
  EXPECT_EQ(order_cost(after, costs, std::vector<int>{0, 1, 2, 3, 4, 5}), best.cost);
}

}  // namespace
}  // namespace atl
