#include "engine/training/metrics.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

namespace atl {

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Metrics from_splits(const std::array<double, 3>& values) {
  return {values[0], values[1], values[2]};
}

double ratio(double numerator, double denominator) {
  return denominator > 0 ? numerator / denominator : kNaN;
}

// The first `size` of the queued counts of all ranks, `what`.
std::vector<std::int64_t> sum_of_counts(const Rank& rank, int epoch,
                                        ReadBackArray<std::int64_t>& queued, std::size_t size,
                                        const char* what) {
  queued.queue_copy(rank.backend, rank.queue);
  rank.reducer.synchronize();
  const auto host = queued.host().first(size);
  std::vector<std::int64_t> counts(host.begin(), host.end());
  rank.reducer.sum_host(counts, what, epoch);
  return counts;
}

Metrics accuracy(const Rank& rank, int epoch, const RankData& data, ConstMatrixView logits,
                 ReadBackArray<std::int64_t>& queued) {
  constexpr std::size_t kCounts = 6;
  rank.backend.count_correct(rank.queue, logits, data.targets().labels, data.split(),
                             queued.span().first(kCounts));
  const std::vector<std::int64_t> counts = sum_of_counts(rank, epoch, queued, kCounts, "accuracy");
  std::array<double, 3> values{};
  for (std::size_t s = 0; s < 3; ++s) {
    values[s] = ratio(static_cast<double>(counts[2 * s]), static_cast<double>(counts[2 * s + 1]));
  }
  return from_splits(values);
}

Metrics micro_f1(const Rank& rank, int epoch, const RankData& data, ConstMatrixView logits,
                 ReadBackArray<std::int64_t>& queued) {
  constexpr std::size_t kCounts = 9;
  rank.backend.count_multi_label(rank.queue, logits, data.targets().multi_labels, data.split(),
                                 queued.span().first(kCounts));
  const std::vector<std::int64_t> counts = sum_of_counts(rank, epoch, queued, kCounts, "micro-F1");
  std::array<double, 3> values{};
  for (std::size_t s = 0; s < 3; ++s) {
    const auto hits = static_cast<double>(counts[3 * s]);
    const auto errors = static_cast<double>(counts[3 * s + 1] + counts[3 * s + 2]);
    values[s] = ratio(2 * hits, 2 * hits + errors);
  }
  return from_splits(values);
}

// One labelled node on its way to rank 0.
struct ScoredNode {
  float score;
  std::uint8_t positive;
  std::uint8_t split;
};

Metrics binary_roc_auc(const Rank& rank, int epoch, const RankData& data, ConstMatrixView logits) {
  rank.reducer.synchronize();
  const std::vector<float> scores = download_f32(rank.backend, rank.queue, logits);
  std::vector<ScoredNode> nodes;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const std::uint8_t target = data.host_targets()[i];
    const std::uint8_t split = data.host_split()[i];
    if (target != 255 && split <= 2) nodes.push_back({scores[i], target, split});
  }
  const OperationLabel label{"ROC-AUC", "", -1, epoch};
  const auto gathered = rank.transport.gather(std::as_bytes(std::span(nodes)), 0, label);
  std::array<double, 3> values{kNaN, kNaN, kNaN};
  for (std::uint8_t s = 0; rank.transport.rank() == 0 && s < 3; ++s) {
    std::vector<float> split_scores;
    std::vector<std::uint8_t> positive;
    for (const std::vector<std::byte>& bytes : gathered) {
      std::vector<ScoredNode> part(bytes.size() / sizeof(ScoredNode));
      if (!part.empty()) std::memcpy(part.data(), bytes.data(), bytes.size());
      for (const ScoredNode& node : part) {
        if (node.split != s) continue;
        split_scores.push_back(node.score);
        positive.push_back(node.positive);
      }
    }
    values[s] = roc_auc(split_scores, positive);
  }
  rank.transport.broadcast(std::as_writable_bytes(std::span(values)), 0, label);
  return from_splits(values);
}

}  // namespace

std::string to_text(const Metrics& metrics) {
  const auto number = [](double value) {
    return std::isnan(value) ? std::string("-") : fmt::format("{:.4f}", value);
  };
  return fmt::format("train {}  valid {}  test {}", number(metrics.train), number(metrics.valid),
                     number(metrics.test));
}

const char* metric_name(Task task) {
  switch (task) {
    case Task::kSingleLabel:
      return "accuracy";
    case Task::kMultiLabel:
      return "micro-F1";
    case Task::kBinary:
      return "ROC-AUC";
  }
  return "";
}

double roc_auc(std::span<const float> scores, std::span<const std::uint8_t> positive) {
  // They have no order, and sorting by one that is none may run out of the array.
  if (std::ranges::any_of(scores, [](float score) { return std::isnan(score); })) return kNaN;
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return scores[a] < scores[b]; });
  double rank_sum = 0;  // of positives, 1-based, ties at their mean rank
  double positives = 0;
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin;
    double hits = 0;
    while (end < order.size() && scores[order[end]] == scores[order[begin]]) {
      hits += positive[order[end]];
      ++end;
    }
    rank_sum += hits * (static_cast<double>(begin + end + 1) / 2);
    positives += hits;
    begin = end;
  }
  const double negatives = static_cast<double>(order.size()) - positives;
  return ratio(rank_sum - positives * (positives + 1) / 2, positives * negatives);
}

Metrics compute_metrics(const Rank& rank, int epoch, const RankData& data, ConstMatrixView logits,
                        ReadBackArray<std::int64_t>& counts) {
  if (!data.labelled()) {
    rank.reducer.synchronize();
    return {};
  }
  switch (data.dataset().task) {
    case Task::kSingleLabel:
      return accuracy(rank, epoch, data, logits, counts);
    case Task::kMultiLabel:
      return micro_f1(rank, epoch, data, logits, counts);
    case Task::kBinary:
      return binary_roc_auc(rank, epoch, data, logits);
  }
  return {};
}

}  // namespace atl
