#include "engine/training/metrics.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

namespace atl {

namespace {

Metrics from_splits(const std::array<double, 3>& values) {
  Metrics metrics;
  metrics.train = values[0];
  metrics.valid = values[1];
  metrics.test = values[2];
  return metrics;
}

double ratio(double numerator, double denominator) {
  return denominator > 0 ? numerator / denominator : kUnknownMetric;
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
  std::array<double, 3> values{kUnknownMetric, kUnknownMetric, kUnknownMetric};
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

double mean_or_unknown(double sum, double count) {
  return count > 0 ? sum / count : kUnknownMetric;
}

// R2 of each number is 1 - (sum of squared errors) / spread; the metric is the mean over the
// numbers, without those whose labels are all alike. MAE and RMSE are over all labels.
Metrics r_squared(const Rank& rank, int epoch, const RankData& data, ConstMatrixView predictions) {
  rank.reducer.synchronize();
  const std::vector<float> found = download_f32(rank.backend, rank.queue, predictions);
  const std::span<const float> labels = data.host_numbers();
  const LabelSpread& spread = data.label_spread();
  const std::size_t places = spread.count.size();
  std::vector<double> sums(2 * places, 0.0);  // squared errors, absolute errors
  for_labels(labels, data.host_split(), data.outputs(), [&](std::size_t place, std::size_t k) {
    const double error = static_cast<double>(found[k]) - static_cast<double>(labels[k]);
    sums[place] += error * error;
    sums[places + place] += std::abs(error);
  });
  rank.transport.all_reduce(std::span(sums), {"R2", "", -1, epoch});
  std::array<double, 3> r2{};
  std::array<double, 3> mae{};
  std::array<double, 3> rmse{};
  const std::size_t columns = places / 3;
  for (std::size_t s = 0; s < 3; ++s) {
    double explained = 0;
    double varied = 0;
    double squares = 0;
    double distances = 0;
    double count = 0;
    for (std::size_t place = s * columns; place < (s + 1) * columns; ++place) {
      squares += sums[place];
      distances += sums[places + place];
      count += spread.count[place];
      if (spread.squares[place] == 0) continue;
      explained += 1 - sums[place] / spread.squares[place];
      varied += 1;
    }
    r2[s] = mean_or_unknown(explained, varied);
    mae[s] = mean_or_unknown(distances, count);
    rmse[s] = std::sqrt(mean_or_unknown(squares, count));
  }
  Metrics metrics = from_splits(r2);
  metrics.mae = mae;
  metrics.rmse = rmse;
  return metrics;
}

}  // namespace

std::string to_text(const Metrics& metrics) {
  const auto number = [](double value) {
    return std::isnan(value) ? std::string("-") : fmt::format("{:.4f}", value);
  };
  return fmt::format("train {}  valid {}  test {}", number(metrics.train), number(metrics.valid),
                     number(metrics.test));
}

std::string further_text(const Metrics& metrics) {
  std::string text;
  for (const auto& [name, errors] : {std::pair{"MAE", &metrics.mae}, {"RMSE", &metrics.rmse}}) {
    if (std::ranges::all_of(*errors, [](double error) { return std::isnan(error); })) continue;
    text += fmt::format("  {}: {}\n", name, to_text(from_splits(*errors)));
  }
  for (const auto& [metric, splits] : metrics.links) {
    if (metric == LinkMetric{}) continue;
    text += fmt::format("  {}: {}\n", shown_name(metric), to_text(from_splits(splits)));
  }
  return text;
}

const char* metric_name(Task task) {
  switch (task) {
    case Task::kSingleLabel:
      return "accuracy";
    case Task::kMultiLabel:
      return "micro-F1";
    case Task::kBinary:
      return "ROC-AUC";
    case Task::kRegression:
      return "R2";
    case Task::kLinkPrediction:
      return "MRR";
  }
  return "";
}

double roc_auc(std::span<const float> scores, std::span<const std::uint8_t> positive) {
  // They have no order, and sorting by one that is none may run out of the array.
  if (std::ranges::any_of(scores, [](float score) { return std::isnan(score); }))
    return kUnknownMetric;
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
    case Task::kRegression:
      return r_squared(rank, epoch, data, logits);
    case Task::kLinkPrediction:
      break;  // LinkTask::evaluate()
  }
  return {};
}

}  // namespace atl
