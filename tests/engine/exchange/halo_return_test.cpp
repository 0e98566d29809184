#include "engine/exchange/halo_return.hpp"

#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "engine/exchange/halo_exchange.hpp"
#include "tests/engine/exchange/exchanged_rows.hpp"
#include "tests/support/random_graph.hpp"

namespace atl {
namespace {

constexpr int kReturnNodes = 60;
constexpr std::int64_t kReturnColumns = 5;

// A part's value for a node, a whole number so that sums are exact.
float returned_value(int part, std::int64_t node, std::int64_t column) {
  return static_cast<float>((part + 1) * 1000 + node * 7 % 100 + column);
}

// Fewer rows travel than a part has nodes.
Csr few_edges() {
  Csr csr;
  for (std::int32_t i = 0; i < kReturnNodes; ++i) {
    if (i < 5) csr.col_idx.push_back(i + kReturnNodes / 2);
    csr.row_ptr.push_back(static_cast<std::int64_t>(csr.col_idx.size()));
  }
  return csr;
}

TEST(HaloReturn, OwnersGetTheSumOfWhatEveryPartReturns) {
  for (const int kind : {0, 1, 2}) {
    const bool directed = kind != 1;
    const Csr csr = kind == 2 ? few_edges() : random_graph(kReturnNodes, 4, directed, false, 3);
    for (const int parts : {1, 2, 4}) {
      std::mutex mutex;
      std::map<std::int64_t, std::vector<float>> expected;
      std::map<std::int64_t, std::vector<float>> found;
      run_parts({csr.view(), !directed}, parts,
                [&](Transport& transport, const LocalGraphView& local) {
                  TestRank rank(transport, local, "cpu");
                  const HaloReturn back(*rank.backend, *rank.queue, local, EdgesBySource::kSorted);
                  const DistributedOperator& messages = back.messages();
                  ASSERT_EQ(messages.inner(), local.forward.halo.halo_rows());
                  Tensor rows(*rank.backend, messages.with_halo(), kReturnColumns, DType::kF32);
                  for (std::int64_t k = 0; k < messages.inner(); ++k) {
                    const std::int64_t node =
                        to_index(local.forward.halo_ids[static_cast<std::size_t>(k)]);
                    const std::lock_guard lock(mutex);
                    auto& sum = expected[node];
                    sum.resize(kReturnColumns, 0.0F);
                    for (std::int64_t j = 0; j < kReturnColumns; ++j) {
                      rows.view().row<float>(k)[j] = returned_value(local.part, node, j);
                      sum[static_cast<std::size_t>(j)] += returned_value(local.part, node, j);
                    }
                  }
                  const auto exchange = make_exact_exchange(rank.self);
                  const Channel channel{.number = 0, .layer = 0, .direction = Direction::kBackward};
                  exchange->begin(messages, rows.view(), channel, {.epoch = 1})->finish();
                  Tensor sums(*rank.backend, local.inner(), kReturnColumns, DType::kF32);
                  rank.backend->run(
                      *rank.queue,
                      kernels::Spmm{back.sums(), {0, local.inner()}, rows.view(), 0, sums.view()});
                  for (std::int64_t i = 0; i < local.inner(); ++i) {
                    const std::lock_guard lock(mutex);
                    const float* row = sums.view().row<float>(i);
                    found[to_index(local.inner_ids[static_cast<std::size_t>(i)])] = {
                        row, row + kReturnColumns};
                  }
                });
      ASSERT_EQ(found.size(), static_cast<std::size_t>(kReturnNodes));
      if (parts > 1) {
        ASSERT_FALSE(expected.empty());
      }
      for (const auto& [node, row] : found) {
        const auto sum = expected.find(node);
        const std::vector<float> zeros(kReturnColumns, 0.0F);
        EXPECT_EQ(row, sum == expected.end() ? zeros : sum->second)
            << "node " << node << ", " << parts << " parts";
      }
    }
  }
}

TEST(HaloReturn, ListsEveryEdgeOnceByItsSource) {
  const Csr csr = random_graph(kReturnNodes, 4, true, false, 3);
  run_parts({csr.view(), false}, 3, [&](Transport& transport, const LocalGraphView& local) {
    TestRank rank(transport, local, "cpu");
    const HaloReturn back(*rank.backend, *rank.queue, local, EdgesBySource::kSorted);
    const SourceEdges edges = back.edges();
    const CsrView& forward = local.forward.csr;
    std::vector<int> seen(forward.col_idx.size(), 0);
    for (std::size_t j = 0; j + 1 < edges.row_ptr.size(); ++j) {
      for (std::int64_t k = edges.row_ptr[j]; k < edges.row_ptr[j + 1]; ++k) {
        const std::int64_t e = edges.edges[static_cast<std::size_t>(k)];
        const std::int32_t target = edges.targets[static_cast<std::size_t>(k)];
        EXPECT_EQ(forward.col_idx[static_cast<std::size_t>(e)], static_cast<std::int32_t>(j));
        EXPECT_LE(forward.row_ptr[static_cast<std::size_t>(target)], e);
        EXPECT_LT(e, forward.row_ptr[static_cast<std::size_t>(target) + 1]);
        if (k > edges.row_ptr[j]) {
          EXPECT_LE(edges.targets[static_cast<std::size_t>(k - 1)], target);
        }
        ++seen[static_cast<std::size_t>(e)];
      }
    }
    EXPECT_EQ(seen, std::vector<int>(seen.size(), 1));
  });
}

}  // namespace
}  // namespace atl
