// Tests of the assignment of parts to ranks, against all permutations.
#include "partition/assignment.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<int> identity(int parts) {
  std::vector<int> order(parts);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

// The definition, with diagonals that must not count.
double plain_cost(const std::vector<std::int64_t>& volume, const std::vector<double>& link_cost,
                  const std::vector<int>& order) {
  const std::size_t parts = order.size();
  double sum = 0;
  for (std::size_t to = 0; to < parts; ++to) {
    for (std::size_t from = 0; from < parts; ++from) {
      if (to == from) continue;
      sum += static_cast<double>(volume[order[to] * parts + order[from]]) *
             link_cost[to * parts + from];
    }
  }
  return sum;
}

double least_cost(const std::vector<std::int64_t>& volume, const std::vector<double>& link_cost,
                  int parts) {
  std::vector<int> order = identity(parts);
  double least = plain_cost(volume, link_cost, order);
  while (std::ranges::next_permutation(order).found) {
    least = std::min(least, plain_cost(volume, link_cost, order));
  }
  return least;
}

// Costs 0 inside an island, 1 between islands.
std::vector<double> island_costs(const std::vector<int>& island_of) {
  std::vector<double> costs;
  for (const int a : island_of) {
    for (const int b : island_of) costs.push_back(a == b ? 0 : 1);
  }
  return costs;
}

std::vector<std::int64_t> random_volume(int parts, std::mt19937& random) {
  std::uniform_int_distribution<std::int64_t> rows(0, 1000);
  std::vector<std::int64_t> volume(parts * parts);
  for (std::int64_t& entry : volume) entry = rows(random);
  return volume;
}

bool is_permutation(std::vector<int> order, int parts) {
  std::ranges::sort(order);
  return order == identity(parts);
}

TEST(OrderCost, IsTheSumOverLinks) {
  const std::vector<std::int64_t> volume{9, 1, 2, 3, 9, 4, 5, 6, 9};
  const std::vector<double> cost{99, 1, 10, 100, 99, 1000, 10000, 100000, 99};
  EXPECT_EQ(order_cost(volume, cost, std::vector<int>{0, 1, 2}), 1 + 20 + 300 + 4000 + 650000);
  // Rank 0 runs part 2, rank 1 part 0, rank 2 part 1.
  EXPECT_EQ(order_cost(volume, cost, std::vector<int>{2, 0, 1}), 5 + 60 + 200 + 1000 + 340000);
}

TEST(BestPartOrder, BringsHeavyPairsTogether) {
  // 0 and 2 exchange much, 1 and 3 too.
  const std::vector<std::int64_t> volume{0, 1, 9, 1, 1, 0, 1, 9, 9, 1, 0, 1, 1, 9, 1, 0};
  const PartOrder best = best_part_order(volume, island_costs({0, 0, 1, 1}), 4);
  EXPECT_THAT(best.order, ElementsAre(0, 2, 1, 3));
  EXPECT_EQ(best.cost, 8);
  EXPECT_TRUE(best.exact);
  EXPECT_EQ(best.compared, 3);
}

TEST(BestPartOrder, MergesWhatIsAlike) {
  std::mt19937 random(5);
  const auto compared = [&](const std::vector<int>& island_of) {
    const auto parts = static_cast<int>(island_of.size());
    return best_part_order(random_volume(parts, random), island_costs(island_of), parts).compared;
  };
  EXPECT_EQ(compared({0, 0, 0, 0, 1, 1, 1, 1}), 35);  // 8! / (4! 4! 2!)
  EXPECT_EQ(compared({0, 1, 0, 1, 0, 1, 0, 1}), 35);
  EXPECT_EQ(compared({0, 0, 1, 1, 2, 2, 3, 3}), 105);  // 8! / (2!^4 4!)
  EXPECT_EQ(compared({0, 0, 0, 1, 1, 1, 1, 1}), 56);   // 8! / (3! 5!)
  EXPECT_EQ(compared({0, 0, 0, 0, 0, 0, 0, 0}), 1);
  EXPECT_EQ(compared({0}), 1);
}

TEST(BestPartOrder, IsTheBestOfAllPermutations) {
  std::mt19937 random(11);
  std::uniform_int_distribution<int> step(0, 4);
  for (int round = 0; round < 60; ++round) {
    const int parts = 1 + round % 6;
    const auto volume = random_volume(parts, random);
    std::vector<double> cost(parts * parts);
    // Few different values, so that some ranks are alike and most are not.
    for (double& entry : cost) entry = 0.25 * step(random) / (1 + round % 3);
    if (round % 2 == 0) {
      std::vector<int> island_of(parts);
      for (int& island : island_of) island = step(random) % 3;
      cost = island_costs(island_of);
    }
    const PartOrder best = best_part_order(volume, cost, parts);
    ASSERT_TRUE(is_permutation(best.order, parts));
    EXPECT_NEAR(best.cost, least_cost(volume, cost, parts), 1e-9 * (1 + best.cost));
    EXPECT_NEAR(best.cost, plain_cost(volume, cost, best.order), 1e-9 * (1 + best.cost));
  }
}

TEST(BestPartOrder, RankOrderStaysWhereNothingIsBetter) {
  std::mt19937 random(3);
  for (const int parts : {2, 5, 8, 12}) {
    const std::vector<double> equal(parts * parts, 2.0);
    EXPECT_EQ(best_part_order(random_volume(parts, random), equal, parts).order, identity(parts));
  }
}

// Beyond enumeration: four groups of four that exchange much inside, dealt out like cards, on four
// islands. The best order is known: every group on one island.
TEST(BestPartOrder, FindsGroupsAmongManyParts) {
  constexpr int kParts = 16;
  std::mt19937 random(17);
  for (int round = 0; round < 20; ++round) {
    std::vector<int> group_of(kParts);
    for (int part = 0; part < kParts; ++part) group_of[part] = part % 4;
    std::ranges::shuffle(group_of, random);
    std::vector<std::int64_t> volume;
    std::int64_t between = 0;
    for (const int a : group_of) {
      for (const int b : group_of) {
        volume.push_back(a == b ? 100 : 1);
        between += a == b ? 0 : 1;
      }
    }
    std::vector<int> island_of(kParts);
    for (int rank = 0; rank < kParts; ++rank) island_of[rank] = rank / 4;
    const PartOrder best = best_part_order(volume, island_costs(island_of), kParts);
    ASSERT_TRUE(is_permutation(best.order, kParts));
    EXPECT_FALSE(best.exact);
    EXPECT_EQ(best.cost, static_cast<double>(between));
    EXPECT_EQ(best.cost, plain_cost(volume, island_costs(island_of), best.order));
  }
}

// No exchange of two ranks improves what is returned, and it is at most rank order's cost.
TEST(BestPartOrder, CannotBeImprovedByOneSwap) {
  constexpr int kParts = 11;
  std::mt19937 random(23);
  std::uniform_real_distribution<double> seconds(0, 1);
  for (int round = 0; round < 10; ++round) {
    const auto volume = random_volume(kParts, random);
    std::vector<double> cost(kParts * kParts);
    for (double& entry : cost) entry = seconds(random);
    PartOrder best = best_part_order(volume, cost, kParts);
    EXPECT_LE(best.cost, plain_cost(volume, cost, identity(kParts)));
    EXPECT_NEAR(best.cost, plain_cost(volume, cost, best.order), 1e-9 * best.cost);
    for (int a = 0; a < kParts; ++a) {
      for (int b = a + 1; b < kParts; ++b) {
        std::swap(best.order[a], best.order[b]);
        EXPECT_GE(plain_cost(volume, cost, best.order), best.cost * (1 - 1e-9));
        std::swap(best.order[a], best.order[b]);
      }
    }
  }
}

TEST(BestPartOrder, RefusesImpossibleMatrices) {
  const auto message = [](const std::vector<std::int64_t>& volume, const std::vector<double>& cost,
                          int parts) {
    const Error error = thrown_error([&] { best_part_order(volume, cost, parts); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return std::string(error.what());
  };
  EXPECT_THAT(message({0, 1, 1, 0}, {0, 1, 1}, 2), HasSubstr("3 link costs for 2 parts"));
  EXPECT_THAT(message({}, {}, 0), HasSubstr("for 0 parts"));
  EXPECT_THAT(message({0, 1, 1, 0}, {0, 1, -1, 0}, 2),
              HasSubstr("link cost from rank 0 to rank 1: -1"));
  EXPECT_THAT(message({0, 1, 1, 0}, {0, std::nan(""), 1, 0}, 2), HasSubstr("nan"));
  EXPECT_THAT(message({0, -7, 1, 0}, {0, 1, 1, 0}, 2), HasSubstr("from part 1 to part 0: -7 rows"));
}

}  // namespace
}  // namespace atl
