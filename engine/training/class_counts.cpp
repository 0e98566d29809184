#include "engine/training/class_counts.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"

namespace atl {

namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

double ratio_or(double numerator, double denominator, double otherwise) {
  return denominator > 0 ? numerator / denominator : otherwise;
}

}  // namespace

ClassCounts::ClassCounts(std::int64_t classes, bool several, bool confusion)
    : classes_(classes),
      several_(several),
      confusion_(confusion && !several && classes <= kMostConfusedClasses),
      counts_(static_cast<std::size_t>(3 * classes + 2 + (confusion_ ? classes * classes : 0)), 0) {
}

void ClassCounts::add(std::int64_t label, std::int64_t predicted) {
  ++counts_[3 * label];
  if (predicted >= 0) ++counts_[3 * predicted + 1];
  if (predicted == label) ++counts_[3 * label + 2];
  add_node(predicted == label);
  if (confusion_ && predicted >= 0) ++counts_[3 * classes_ + 2 + label * classes_ + predicted];
}

void ClassCounts::add_label(std::int64_t column, bool label, bool predicted) {
  counts_[3 * column] += label ? 1 : 0;
  counts_[3 * column + 1] += predicted ? 1 : 0;
  counts_[3 * column + 2] += label && predicted ? 1 : 0;
}

void ClassCounts::add_node(bool all_right) {
  ++counts_[3 * classes_];
  counts_[3 * classes_ + 1] += all_right ? 1 : 0;
}

double ClassCounts::precision(std::int64_t c) const {
  return ratio_or(static_cast<double>(right(c)), static_cast<double>(predicted(c)), 0);
}

double ClassCounts::recall(std::int64_t c) const {
  return ratio_or(static_cast<double>(right(c)), static_cast<double>(support(c)), 0);
}

double ClassCounts::f1(std::int64_t c) const {
  return ratio_or(2 * static_cast<double>(right(c)), static_cast<double>(support(c) + predicted(c)),
                  0);
}

std::int64_t ClassCounts::confused(std::int64_t label, std::int64_t predicted) const {
  ATOLL_ASSERT(confusion_, "{} classes", classes_);
  return counts_[3 * classes_ + 2 + label * classes_ + predicted];
}

double ClassCounts::f1_micro() const {
  double all_right = 0;
  double all = 0;
  for (std::int64_t c = 0; c < classes_; ++c) {
    all_right += 2 * static_cast<double>(right(c));
    all += static_cast<double>(support(c) + predicted(c));
  }
  return ratio_or(all_right, all, several_ ? 0 : kNone);
}

// The mean over classes: of one label per node those that occur as label or prediction, of several
// all. Weighted: by their support.
double ClassCounts::f1_mean(bool weighted) const {
  double sum = 0;
  double weights = 0;
  for (std::int64_t c = 0; c < classes_; ++c) {
    const bool occurs = several_ || support(c) + predicted(c) > 0;
    const double weight = weighted ? static_cast<double>(support(c)) : occurs ? 1 : 0;
    sum += weight * f1(c);
    weights += weight;
  }
  return ratio_or(sum, weights, several_ ? 0 : kNone);
}

double ClassCounts::balanced_accuracy() const {
  double sum = 0;
  double occurring = 0;
  for (std::int64_t c = 0; c < classes_; ++c) {
    if (support(c) == 0) continue;
    sum += recall(c);
    occurring += 1;
  }
  return ratio_or(sum, occurring, kNone);
}

// The multi-class form of Gorodkin (2004), from the marginals alone; 0 where one of them has a
// single class.
double ClassCounts::mcc() const {
  double both = 0;
  double labels = 0;
  double predictions = 0;
  for (std::int64_t c = 0; c < classes_; ++c) {
    const auto of_label = static_cast<double>(support(c));
    const auto of_prediction = static_cast<double>(predicted(c));
    both += of_label * of_prediction;
    labels += of_label * of_label;
    predictions += of_prediction * of_prediction;
  }
  const double squares = nodes() * nodes();
  const double spread = (squares - labels) * (squares - predictions);
  return spread > 0 ? (right_nodes() * nodes() - both) / std::sqrt(spread) : 0;
}

double ClassCounts::value(MetricKind kind) const {
  if (nodes() == 0) return kNone;
  switch (kind) {
    case MetricKind::kAccuracy:
      return right_nodes() / nodes();
    case MetricKind::kF1Micro:
      return f1_micro();
    case MetricKind::kF1Macro:
      return f1_mean(/*weighted=*/false);
    case MetricKind::kF1Weighted:
      return f1_mean(/*weighted=*/true);
    case MetricKind::kBalancedAccuracy:
      return balanced_accuracy();
    case MetricKind::kMcc:
      return mcc();
    default:
      break;
  }
  ATOLL_ASSERT(false, "{} does not follow from counts", to_string(Metric{kind}));
  return kNone;
}

RankingQuality ranking_quality(std::span<ScoredNode> nodes) {
  // They have no order, and sorting by one that is none may run out of the array.
  if (std::ranges::any_of(nodes, [](const ScoredNode& node) { return std::isnan(node.score); })) {
    return {kNone, kNone};
  }
  std::ranges::sort(nodes, std::greater(), &ScoredNode::score);
  double positives = 0;
  for (const ScoredNode& node : nodes) positives += node.positive;
  const double negatives = static_cast<double>(nodes.size()) - positives;
  double hits = 0;    // positives so far, from the highest score down
  double misses = 0;  // negatives so far
  double ordered = 0;
  double precisions = 0;
  for (std::size_t begin = 0; begin < nodes.size();) {
    double more_hits = 0;
    double more_misses = 0;
    std::size_t end = begin;
    for (; end < nodes.size() && nodes[end].score == nodes[begin].score; ++end) {
      more_hits += nodes[end].positive;
      more_misses += 1 - nodes[end].positive;
    }
    ordered += more_misses * (hits + more_hits / 2);
    hits += more_hits;
    misses += more_misses;
    precisions += more_hits * (hits / (hits + misses));
    begin = end;
  }
  return {ratio_or(ordered, positives * negatives, kNone), ratio_or(precisions, positives, kNone)};
}

}  // namespace atl
