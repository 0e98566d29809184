#include "partition/arrival.hpp"

#include <gtest/gtest.h>

#include "partition/message_cover.hpp"
#include "tests/support/random_graph.hpp"

namespace atl {
namespace {

constexpr int kArrivalParts = 5;

// The group of a marginal row.
std::size_t group_of(std::int64_t row, const MarginalGroups& groups) {
  std::size_t group = 0;
  while (row >= groups[group]) ++group;
  return group;
}

// Every message that a row reads is among those that its group is said to need.
void expect_enough(const LocalGraphView& graph, const LocalMatrixView& matrix,
                   const MarginalGroups& groups) {
  const std::vector<std::int64_t> needed = needed_messages(graph, matrix, groups);
  for (std::int64_t row = graph.central; row < graph.inner(); ++row) {
    for (std::int64_t e = matrix.split[row]; e < matrix.csr.row_ptr[row + 1]; ++e) {
      const std::int64_t message = matrix.csr.col_idx[e] - graph.inner();
      const auto part =
          static_cast<std::size_t>(std::ranges::upper_bound(matrix.halo.recv_offset, message) -
                                   matrix.halo.recv_offset.begin() - 1);
      EXPECT_LT(message - matrix.halo.recv_offset[part],
                needed[part * groups.size() + group_of(row, groups)]);
    }
  }
  for (int part = 0; part < graph.parts; ++part) {
    const auto of =
        std::span(needed).subspan(static_cast<std::size_t>(part) * groups.size(), groups.size());
    EXPECT_TRUE(std::ranges::is_sorted(of));
    EXPECT_EQ(of.back(), matrix.halo.received_from(static_cast<std::size_t>(part)));
  }
}

class MarginalGroupsOf : public testing::TestWithParam<bool> {};

TEST_P(MarginalGroupsOf, NeedNoLaterMessages) {
  const bool directed = GetParam();
  const Csr csr = random_graph(600, 4, directed, /*weighted=*/false, 3);
  const GraphView graph{csr.view(), !directed};
  const std::vector<std::int32_t> part_of = scattered_parts(600, kArrivalParts);
  LocalGraphBuilder builder(graph, part_of, kArrivalParts);
  for (int part = 0; part < kArrivalParts; ++part) {
    const LocalGraph local = builder.build(part);
    const CoveredGraph cover(local.view());
    for (const LocalGraphView& view : {local.view(), cover.view()}) {
      const MarginalGroups groups = marginal_groups(view);
      ASSERT_EQ(std::ssize(groups), kMarginalGroups);
      EXPECT_TRUE(std::ranges::is_sorted(groups));
      EXPECT_EQ(groups.back(), view.inner());
      expect_enough(view, view.forward, groups);
      expect_enough(view, view.backward, groups);
    }
    // Where messages lie in an order of need, half of the groups need about half of the messages.
    const LocalGraphView view = cover.view();
    const std::vector<std::int64_t> needed =
        needed_messages(view, view.forward, marginal_groups(view));
    std::int64_t half = 0;
    for (int from = 0; from < kArrivalParts; ++from) {
      half += needed[static_cast<std::size_t>(from * kMarginalGroups + kMarginalGroups / 2 - 1)];
    }
    const std::int64_t all = view.forward.halo.halo_rows();
    EXPECT_GE(half, all / 2 - kArrivalParts);
    EXPECT_LE(half, all * 6 / 10);
  }
}

INSTANTIATE_TEST_SUITE_P(Both, MarginalGroupsOf, testing::Bool(), [](const auto& test) {
  return std::string(test.param ? "Directed" : "Symmetric");
});

}  // namespace
}  // namespace atl
