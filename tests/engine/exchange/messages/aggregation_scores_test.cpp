#include "engine/exchange/messages/aggregation_scores.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "tests/engine/exchange/messages/dense_alpha.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/test_rank.hpp"

namespace atl {
namespace {

using ::testing::UnorderedElementsAre;

struct ScoreCase {
  bool directed;
  bool weighted;
  Normalisation normalisation;
};

class AggregationScores : public ::testing::TestWithParam<ScoreCase> {};

TEST_P(AggregationScores, AreTheSumsOfTheDenseCoefficients) {
  const ScoreCase& c = GetParam();
  const Csr csr = random_graph(110, 6, c.directed, c.weighted, 23);
  const GraphView graph{csr.view(), !c.directed};
  const std::int64_t n = graph.nodes();
  for (const int parts : {2, 5}) {
    for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
      const std::vector<double> alpha = dense_alpha(csr.view(), c.normalisation, direction);
      std::mutex mutex;
      int messages = 0;
      int apart = 0;  // messages whose two scores differ: several consumers
      run_parts(graph, parts, [&](Transport& transport, const LocalGraphView& local) {
        TestRank rank(transport, local, "reference");
        const GraphOperators operators(*rank.backend, *rank.queue, local, c.normalisation);
        const bool forward = direction == Direction::kForward;
        const DistributedOperator& op = forward ? operators.forward() : operators.backward();
        const auto halo = forward ? local.forward.halo_ids : local.backward.halo_ids;
        const std::vector<float> variance = aggregation_scores(op, Sensitivity::kVariance);
        const std::vector<float> bound = aggregation_scores(op, Sensitivity::kUpperBound);
        ASSERT_EQ(variance.size(), halo.size());
        ASSERT_EQ(bound.size(), halo.size());
        const std::lock_guard lock(mutex);
        for (std::size_t k = 0; k < halo.size(); ++k) {
          double squares = 0;
          double sum = 0;
          for (const GlobalId consumer : local.inner_ids) {
            const double coefficient = alpha[to_index(consumer) * n + to_index(halo[k])];
            squares += coefficient * coefficient;
            sum += std::abs(coefficient);
          }
          EXPECT_GT(squares, 0) << "a message that nobody uses";
          ASSERT_NEAR(variance[k], squares, 1e-5 * squares) << "message " << k;
          ASSERT_NEAR(bound[k], sum * sum, 1e-5 * sum * sum) << "message " << k;
          ++messages;
          apart += sum * sum > 1.01 * squares;
        }
      });
      EXPECT_GT(messages, 50);
      EXPECT_GT(apart, 10);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, AggregationScores,
                         ::testing::Values(ScoreCase{false, false, Normalisation::kSymmetric},
                                           ScoreCase{false, true, Normalisation::kMean},
                                           ScoreCase{true, false, Normalisation::kMean},
                                           ScoreCase{true, true, Normalisation::kSymmetric},
                                           ScoreCase{true, true, Normalisation::kMean}));

// Three edges from node 1 to node 0 of weights 1, 2 and -1 count as one of 2, and one to node 2:
// with the mean forward they are 2/2 and 3/3.
TEST(AggregationScores, OfParallelEdgesAreThoseOfTheirSum) {
  Csr csr;
  csr.row_ptr = {0, 3, 3, 4};
  csr.col_idx = {1, 1, 1, 1};
  csr.values = {1, 2, -1, 3};
  const GraphView graph{csr.view(), false};
  const std::vector<std::int32_t> part_of{0, 1, 0};
  LocalGraphBuilder builder(graph, part_of, 2);
  std::vector<LocalGraph> graphs;
  for (int part = 0; part < 2; ++part) graphs.push_back(builder.build(part));
  run_local_ranks(2, 30, [&](Transport& transport) {
    const LocalGraphView local = graphs[static_cast<std::size_t>(transport.rank())].view();
    TestRank rank(transport, local, "reference");
    const GraphOperators mean(*rank.backend, *rank.queue, local, Normalisation::kMean);
    const std::size_t sent_to_me = transport.rank() == 0 ? 1 : 0;
    const std::vector<float> variance = aggregation_scores(mean.forward(), Sensitivity::kVariance);
    const std::vector<float> bound = aggregation_scores(mean.forward(), Sensitivity::kUpperBound);
    ASSERT_EQ(variance.size(), sent_to_me);
    if (transport.rank() == 0) {
      EXPECT_FLOAT_EQ(variance[0], 2);  // 1 + 1
      EXPECT_FLOAT_EQ(bound[0], 4);     // (1 + 1)^2
      return;
    }
    // Backward node 1 adds up the gradients of nodes 0 and 2: 2 and 3 times, one consumer each.
    EXPECT_THAT(aggregation_scores(mean.backward(), Sensitivity::kVariance),
                UnorderedElementsAre(4, 9));
    EXPECT_THAT(aggregation_scores(mean.backward(), Sensitivity::kUpperBound),
                UnorderedElementsAre(4, 9));
  });
}

}  // namespace
}  // namespace atl
