// Metrics of counts and rankings: by hand, and by plain loops over all nodes and pairs of nodes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "engine/training/class_counts.hpp"
#include "engine/training/metric_names.hpp"

namespace atl {
namespace {

RankingQuality ranking(const std::vector<float>& scores,
                       const std::vector<std::uint8_t>& positive) {
  std::vector<ScoredNode> nodes;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    nodes.push_back({static_cast<double>(scores[i]), positive[i], 0});
  }
  return ranking_quality(nodes);
}

double auc(const std::vector<float>& scores, const std::vector<std::uint8_t>& positive) {
  return ranking(scores, positive).roc_auc;
}

TEST(RocAuc, CountsOrderedPairs) {
  EXPECT_DOUBLE_EQ(auc({0.1F, 0.4F, 0.35F, 0.8F}, {0, 0, 1, 1}), 0.75);
  EXPECT_DOUBLE_EQ(auc({1, 2, 3, 4}, {0, 0, 1, 1}), 1.0);
  EXPECT_DOUBLE_EQ(auc({4, 3, 2, 1}, {0, 0, 1, 1}), 0.0);
}

TEST(RocAuc, CountsTiesHalf) {
  EXPECT_DOUBLE_EQ(auc({5, 5, 5, 5}, {0, 1, 0, 1}), 0.5);
  EXPECT_DOUBLE_EQ(auc({1, 2, 2, 3}, {0, 0, 1, 1}), (1 + 0.5 + 1 + 1) / 4.0);
}

TEST(RocAuc, IsUndefinedWithoutBothClassesOrWithNaN) {
  EXPECT_TRUE(std::isnan(auc({1, 2}, {1, 1})));
  EXPECT_TRUE(std::isnan(auc({1, 2}, {0, 0})));
  EXPECT_TRUE(std::isnan(auc({}, {})));
  EXPECT_TRUE(std::isnan(auc({1, std::nanf("")}, {0, 1})));
  // Enough of them for a sort that NaN misleads to leave the array (seen by the sanitizers).
  std::vector<float> scores(1000);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    scores[i] = i % 3 == 0 ? std::nanf("") : static_cast<float>(i * 7919 % 1000);
  }
  EXPECT_TRUE(std::isnan(auc(scores, std::vector<std::uint8_t>(scores.size(), 1))));
}

// scikit-learn's example of average_precision_score: scores .1 .4 .35 .8 of 0 0 1 1.
TEST(AveragePrecision, IsByHand) {
  EXPECT_DOUBLE_EQ(ranking({0.1F, 0.4F, 0.35F, 0.8F}, {0, 0, 1, 1}).average_precision,
                   0.5 * 1 + 0.5 * 2 / 3);
  // Equal scores all count at once: 1 of 2, then 2 of 4.
  EXPECT_DOUBLE_EQ(ranking({2, 2, 1, 1}, {1, 0, 1, 0}).average_precision, 0.5 * 0.5 + 0.5 * 0.5);
  EXPECT_DOUBLE_EQ(ranking({1, 2}, {1, 1}).average_precision, 1);
  EXPECT_TRUE(std::isnan(ranking({1, 2}, {0, 0}).average_precision));
}

// All pairs for the area; for each positive the precision among what scores at least as high.
TEST(Rankings, AreThoseOfAllPairs) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::vector<float> scores;
    std::vector<std::uint8_t> positive;
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    for (int i = 0; i < 60; ++i) {
      scores.push_back(static_cast<float>(random() % 17));  // with ties
      positive.push_back(static_cast<std::uint8_t>(random() % 3 == 0 ? 1 : 0));
    }
    double ordered = 0;
    double pairs = 0;
    double precision = 0;
    double positives = 0;
    for (std::size_t i = 0; i < scores.size(); ++i) {
      if (positive[i] == 0) continue;
      double above = 0;
      double right = 0;
      for (std::size_t j = 0; j < scores.size(); ++j) {
        if (positive[j] == 0) {
          ordered += scores[i] > scores[j] ? 1 : scores[i] == scores[j] ? 0.5 : 0;
          pairs += 1;
        }
        above += scores[j] >= scores[i] ? 1 : 0;
        right += scores[j] >= scores[i] && positive[j] == 1 ? 1 : 0;
      }
      precision += right / above;
      positives += 1;
    }
    const RankingQuality found = ranking(scores, positive);
    EXPECT_NEAR(found.roc_auc, ordered / pairs, 1e-14);
    EXPECT_NEAR(found.average_precision, precision / positives, 1e-14);
  }
}

// Labels 0 0 0 1 1 2, taken for 0 0 1 1 0 1; class 3 occurs nowhere.
TEST(ClassCounts, GiveMetricsByHand) {
  ClassCounts counts(4, /*several=*/false, /*confusion=*/true);
  const std::vector<std::pair<int, int>> nodes = {{0, 0}, {0, 0}, {0, 1}, {1, 1}, {1, 0}, {2, 1}};
  for (const auto& [label, predicted] : nodes) counts.add(label, predicted);
  EXPECT_DOUBLE_EQ(counts.value(MetricKind::kAccuracy), 3.0 / 6);
  EXPECT_DOUBLE_EQ(counts.value(MetricKind::kF1Micro), 3.0 / 6);
  // F1 by class: 4 / 6, 2 / 5, 0; the fourth is neither label nor prediction.
  EXPECT_DOUBLE_EQ(counts.value(MetricKind::kF1Macro), (4.0 / 6 + 2.0 / 5) / 3);
  EXPECT_DOUBLE_EQ(counts.value(MetricKind::kF1Weighted), (3 * 4.0 / 6 + 2 * 2.0 / 5) / 6);
  EXPECT_DOUBLE_EQ(counts.value(MetricKind::kBalancedAccuracy), (2.0 / 3 + 1.0 / 2) / 3);
  // (3 * 6 - (3 * 3 + 2 * 3)) / sqrt((36 - 9 - 4 - 1) (36 - 9 - 9))
  EXPECT_DOUBLE_EQ(counts.value(MetricKind::kMcc), 3 / std::sqrt(22.0 * 18));
  EXPECT_DOUBLE_EQ(counts.precision(1), 1.0 / 3);
  EXPECT_DOUBLE_EQ(counts.recall(0), 2.0 / 3);
  EXPECT_EQ(counts.precision(2), 0);
  EXPECT_EQ(counts.support(3), 0);
  EXPECT_EQ(counts.confused(2, 1), 1);
  EXPECT_EQ(counts.confused(1, 2), 0);
}

TEST(ClassCounts, OfSeveralLabelsCountEveryLabel) {
  ClassCounts counts(3, /*several=*/true, /*confusion=*/true);
  // Label 0: one of each; label 1: a miss; label 2: neither.
  for (const auto& [label, predicted] : {std::pair{true, true}, {false, true}, {true, false}}) {
    counts.add_label(0, label, predicted);
  }
  counts.add_label(1, true, false);
  counts.add_label(2, false, false);
  counts.add_node(true);
  counts.add_node(false);
  EXPECT_FALSE(counts.has_confusion());
  EXPECT_DOUBLE_EQ(counts.value(MetricKind::kAccuracy), 0.5);
  EXPECT_DOUBLE_EQ(counts.value(MetricKind::kF1Micro), 2.0 / 5);
  EXPECT_DOUBLE_EQ(counts.value(MetricKind::kF1Macro), 0.5 / 3);
  EXPECT_DOUBLE_EQ(counts.value(MetricKind::kF1Weighted), 2 * 0.5 / 3);
}

TEST(ClassCounts, WithoutNodesHaveNoMetric) {
  EXPECT_TRUE(std::isnan(ClassCounts(3, false, true).value(MetricKind::kF1Macro)));
  // A prediction that is none is right nowhere.
  ClassCounts counts(2, false, true);
  counts.add(1, -1);
  EXPECT_EQ(counts.value(MetricKind::kAccuracy), 0);
  EXPECT_EQ(counts.value(MetricKind::kMcc), 0);
}

TEST(MetricNames, GoBothWays) {
  for (const Task task : {Task::kSingleLabel, Task::kMultiLabel, Task::kBinary, Task::kRegression,
                          Task::kLinkPrediction}) {
    for (const Metric metric : metrics_of(task, "10,50")) {
      EXPECT_EQ(metric_named(to_string(metric)), metric);
      EXPECT_EQ(metric_shown_as(shown_name(metric)), metric);
    }
  }
  EXPECT_FALSE(metric_named("f1"));
  EXPECT_TRUE(lower_is_better({MetricKind::kLogLoss}));
  EXPECT_FALSE(lower_is_better({MetricKind::kMcc}));
}

}  // namespace
}  // namespace atl
