// How predictions of classes turned out, as counts, and the metrics that follow from these: equal
// to scikit-learn's.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/training/metric_names.hpp"

namespace atl {

// Up to so many classes, what was taken for what is counted, too.
inline constexpr std::int64_t kMostConfusedClasses = 100;

// Counts nodes of one split. With several labels per node, nodes whose value of a label is known.
class ClassCounts {
 public:
  // confusion: whether what was taken for what is counted; not with several labels per node.
  ClassCounts(std::int64_t classes, bool several, bool confusion);

  // A node of class `label`; predicted: -1 for none.
  void add(std::int64_t label, std::int64_t predicted);
  // A value (0 or 1) of a node with several labels.
  void add_label(std::int64_t column, bool label, bool predicted);
  // Such a node whose known values are all right, or not.
  void add_node(bool all_right);

  // All that is counted in one array, so that it can be summed over ranks.
  std::span<std::int64_t> all() { return counts_; }

  std::int64_t classes() const { return classes_; }
  bool several() const { return several_; }
  std::int64_t support(std::int64_t c) const { return counts_[3 * c]; }  // nodes of the class
  std::int64_t predicted(std::int64_t c) const { return counts_[3 * c + 1]; }
  std::int64_t right(std::int64_t c) const { return counts_[3 * c + 2]; }  // both
  // 0 where nothing was predicted, or no node is of the class.
  double precision(std::int64_t c) const;
  double recall(std::int64_t c) const;
  double f1(std::int64_t c) const;
  bool has_confusion() const { return confusion_; }
  // Nodes of class `label` that were taken for `predicted`.
  std::int64_t confused(std::int64_t label, std::int64_t predicted) const;

  // NaN without nodes. Not of metrics that need more than counts.
  double value(MetricKind kind) const;

 private:
  double nodes() const { return static_cast<double>(counts_[3 * classes_]); }
  double right_nodes() const { return static_cast<double>(counts_[3 * classes_ + 1]); }
  double f1_micro() const;
  double f1_mean(bool weighted) const;
  double balanced_accuracy() const;
  double mcc() const;

  std::int64_t classes_;
  bool several_;
  bool confusion_;
  // By class support, predicted and right; nodes, right nodes; then [label, predicted].
  std::vector<std::int64_t> counts_;
};

// A labelled node in the ranking of a class.
struct ScoredNode {
  double score;
  std::uint8_t positive;
  std::uint8_t split;
};

struct RankingQuality {
  // The probability that a positive scores higher than a negative, ties counted half
  // (Mann-Whitney). NaN unless there are both.
  double roc_auc;
  // Sum over the distinct scores, descending, of the gain in recall times the precision from there
  // up. NaN without positives.
  double average_precision;
};

// Sorts the nodes. Both are NaN if a score is.
RankingQuality ranking_quality(std::span<ScoredNode> nodes);

}  // namespace atl
