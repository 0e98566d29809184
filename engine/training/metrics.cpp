#include "engine/training/metrics.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/parallel.hpp"
#include "engine/program/own_functions.hpp"
#include "engine/training/agreement.hpp"
#include "engine/training/gather_rows.hpp"

namespace atl {

namespace {

constexpr std::size_t kSplits = 3;

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

// Accuracy with one label per node, counted by the device.
SplitValues accuracy(const Rank& rank, int epoch, const RankData& data, ConstMatrixView logits,
                     ReadBackArray<std::int64_t>& queued) {
  constexpr std::size_t kCounts = 6;
  rank.backend.run(rank.queue, kernels::CountCorrect{logits, data.targets().labels, data.split(),
                                                     queued.span().first(kCounts)});
  const std::vector<std::int64_t> counts = sum_of_counts(rank, epoch, queued, kCounts, "accuracy");
  SplitValues values{};
  for (std::size_t s = 0; s < kSplits; ++s) {
    values[s] = ratio(static_cast<double>(counts[2 * s]), static_cast<double>(counts[2 * s + 1]));
  }
  return values;
}

// Micro F1 with several labels per node, counted by the device.
SplitValues micro_f1(const Rank& rank, int epoch, const RankData& data, ConstMatrixView logits,
                     ReadBackArray<std::int64_t>& queued) {
  constexpr std::size_t kCounts = 9;
  rank.backend.run(rank.queue,
                   kernels::CountMultiLabel{logits, data.targets().multi_labels, data.split(),
                                            queued.span().first(kCounts)});
  const std::vector<std::int64_t> counts = sum_of_counts(rank, epoch, queued, kCounts, "micro-F1");
  SplitValues values{};
  for (std::size_t s = 0; s < kSplits; ++s) {
    const auto hits = static_cast<double>(counts[3 * s]);
    const auto errors = static_cast<double>(counts[3 * s + 1] + counts[3 * s + 2]);
    const bool labelled = data.labelled_in(static_cast<Split>(s)) > 0;
    values[s] =
        labelled ? (hits + errors > 0 ? 2 * hits / (2 * hits + errors) : 0) : kUnknownMetric;
  }
  return values;
}

// A model's outcome for the labelled nodes of this rank, in double: metrics of all kinds follow
// from it.
class Outcome {
 public:
  Outcome(const RankData& data, const std::vector<float>& logits)
      : data_(data), logits_(logits), columns_(static_cast<std::size_t>(data.outputs())) {}

  // use(i, split) for every node of a split that has a label.
  template <typename Use>
  void for_nodes(const Use& use) const {
    for (std::size_t i = 0; i < data_.host_split().size(); ++i) {
      const std::uint8_t split = data_.host_split()[i];
      if (split < kSplits && (several() || data_.host_labels()[i] >= 0)) use(i, split);
    }
  }

  bool several() const { return data_.dataset().task == Task::kMultiLabel; }
  bool binary() const { return data_.dataset().task == Task::kBinary; }

  // The class of node i; -1: none, where logits are no numbers.
  std::int64_t predicted(std::size_t i) const {
    const float* row = row_of_node(i);
    if (binary()) return std::isnan(row[0]) ? -1 : row[0] > 0 ? 1 : 0;
    // As the device counts: the first maximum, passing over later NaNs.
    const auto best = std::max_element(row, row + columns_) - row;
    return std::isnan(row[best]) ? -1 : best;
  }

  ClassCounts counts_of(std::uint8_t split) const {
    ClassCounts counts(binary() ? 2 : data_.dataset().classes, several(), /*confusion=*/true);
    for_nodes([&](std::size_t i, std::uint8_t of) {
      if (of != split) return;
      if (!several()) return counts.add(data_.host_labels()[i], predicted(i));
      bool all_right = true;
      bool known = false;
      for (std::size_t c = 0; c < columns_; ++c) {
        const std::uint8_t label = data_.host_multi_labels()[i * columns_ + c];
        if (label == kMissing) continue;
        const bool guess = row_of_node(i)[c] > 0;
        counts.add_label(static_cast<std::int64_t>(c), label == 1, guess);
        all_right = all_right && guess == (label == 1);
        known = true;
      }
      if (known) counts.add_node(all_right);
    });
    return counts;
  }

  // The sum of -log p of what is wanted, by split.
  SplitValues log_losses() const {
    SplitValues sums{};
    for_nodes([&](std::size_t i, std::uint8_t split) {
      const float* row = row_of_node(i);
      if (several()) {
        for (std::size_t c = 0; c < columns_; ++c) {
          const std::uint8_t label = data_.host_multi_labels()[i * columns_ + c];
          if (label != kMissing) sums[split] += sigmoid_loss(row[c], label == 1);
        }
      } else if (binary()) {
        sums[split] += sigmoid_loss(row[0], data_.host_labels()[i] == 1);
      } else {
        const auto [largest, sum] = exponentials_of(row);
        sums[split] += std::log(sum) - (static_cast<double>(row[data_.host_labels()[i]]) - largest);
      }
    });
    return sums;
  }

  // Rankings there are: one of the nodes of binary tasks, else one per class.
  std::size_t rankings() const { return columns_; }

  // Rows in the softmax: largest logit and sum of exponentials, of every node; not of others.
  void prepare_probabilities() {
    if (several() || binary()) return;
    softmax_.resize(data_.host_split().size());
    for_nodes([&](std::size_t i, std::uint8_t) { softmax_[i] = exponentials_of(row_of_node(i)); });
  }

  // The labelled nodes of this rank, by how sure the model is of class c.
  std::vector<ScoredNode> ranking_of(std::size_t c) const {
    std::vector<ScoredNode> nodes;
    for_nodes([&](std::size_t i, std::uint8_t split) {
      const auto logit = static_cast<double>(row_of_node(i)[c]);
      if (several()) {
        const std::uint8_t label = data_.host_multi_labels()[i * columns_ + c];
        if (label != kMissing) nodes.push_back({logit, label, split});
      } else if (binary()) {
        nodes.push_back({logit, static_cast<std::uint8_t>(data_.host_labels()[i]), split});
      } else {
        const bool is_class = data_.host_labels()[i] == static_cast<std::int32_t>(c);
        const double probability = std::exp(logit - softmax_[i].largest) / softmax_[i].sum;
        nodes.push_back({probability, static_cast<std::uint8_t>(is_class ? 1 : 0), split});
      }
    });
    return nodes;
  }

 private:
  static constexpr std::uint8_t kMissing = 255;
  struct Exponentials {
    double largest = 0;
    double sum = 1;
  };

  const float* row_of_node(std::size_t i) const { return logits_.data() + i * columns_; }
  static double sigmoid_loss(float logit, bool wanted) {
    const double z = (wanted ? 1 : -1) * static_cast<double>(logit);
    return std::max(-z, 0.0) + std::log1p(std::exp(-std::abs(z)));
  }
  Exponentials exponentials_of(const float* row) const {
    const auto largest = static_cast<double>(*std::max_element(row, row + columns_));
    double sum = 0;
    for (std::size_t c = 0; c < columns_; ++c) {
      sum += std::exp(static_cast<double>(row[c]) - largest);
    }
    return {largest, sum};
  }

  const RankData& data_;
  const std::vector<float>& logits_;
  std::size_t columns_;
  std::vector<Exponentials> softmax_;
};

// Means over the rankings in which they are defined.
struct RankingValues {
  SplitValues roc_auc;
  SplitValues average_precision;
};

// Every rank judges some of the rankings, of which it gets the nodes of all ranks: as many at a
// time on every machine, so that all ranks gather the same. Each takes 16 bytes per labelled node.
RankingValues rank_everywhere(const Rank& rank, int epoch, Outcome& outcome) {
  const OperationLabel label{"rankings", "", -1, epoch};
  outcome.prepare_probabilities();
  const auto ranks = static_cast<std::size_t>(rank.transport.size());
  const auto mine = static_cast<std::size_t>(rank.transport.rank());
  const std::size_t count = outcome.rankings();
  constexpr std::size_t kAtATime = 4;
  std::vector<double> found(2 * kSplits * count, 0.0);  // of this rank's rankings
  const auto judge = [&](std::vector<ScoredNode>& nodes, std::size_t c) {
    for (std::size_t s = 0; s < kSplits; ++s) {
      const auto end = std::partition(nodes.begin(), nodes.end(),
                                      [&](const ScoredNode& node) { return node.split == s; });
      const RankingQuality quality =
          ranking_quality(std::span(nodes).first(static_cast<std::size_t>(end - nodes.begin())));
      found[2 * (s * count + c)] = quality.roc_auc;
      found[2 * (s * count + c) + 1] = quality.average_precision;
    }
  };
  for (std::size_t first = 0; first < count; first += ranks * kAtATime) {
    const std::size_t last = std::min(count, first + ranks * kAtATime);
    std::vector<std::vector<ScoredNode>> rankings;
    for (std::size_t c = first; c < last; ++c) {
      const std::size_t judge_of = (c - first) % ranks;
      const std::vector<ScoredNode> part = outcome.ranking_of(c);
      const auto gathered =
          rank.transport.gather(std::as_bytes(std::span(part)), static_cast<int>(judge_of), label);
      if (judge_of != mine) continue;
      std::vector<ScoredNode>& nodes = rankings.emplace_back();
      for (const std::vector<std::byte>& bytes : gathered) {
        const std::size_t before = nodes.size();
        nodes.resize(before + bytes.size() / sizeof(ScoredNode));
        if (!bytes.empty()) std::memcpy(nodes.data() + before, bytes.data(), bytes.size());
      }
    }
    parallel_for(std::ssize(rankings), 1, [&](std::int64_t k) {
      const auto number = static_cast<std::size_t>(k);
      judge(rankings[number], first + number * ranks + mine);
    });
  }
  rank.transport.all_reduce(std::span(found), label);
  const auto mean = [&](std::size_t s, std::size_t which) {
    double sum = 0;
    double defined = 0;
    for (std::size_t c = 0; c < count; ++c) {
      const double value = found[2 * (s * count + c) + which];
      if (std::isnan(value)) continue;
      sum += value;
      defined += 1;
    }
    return ratio(sum, defined);
  };
  RankingValues values{};
  for (std::size_t s = 0; s < kSplits; ++s) {
    values.roc_auc[s] = mean(s, 0);
    values.average_precision[s] = mean(s, 1);
  }
  return values;
}

// All metrics of classes, or the chosen one.
Metrics classify(const Rank& rank, int epoch, const RankData& data, ConstMatrixView logits,
                 Metric chosen, MetricExtent extent) {
  rank.reducer.synchronize();
  const std::vector<float> host = download_f32(rank.backend, rank.queue, logits);
  Outcome outcome(data, host);
  const bool all = extent == MetricExtent::kAll;
  const auto wants = [&](MetricKind kind) { return all || chosen.kind == kind; };
  Metrics metrics;
  for (std::size_t s = 0; s < kSplits; ++s) {
    metrics.classes.push_back(outcome.counts_of(static_cast<std::uint8_t>(s)));
    rank.transport.all_reduce(metrics.classes.back().all(), {"counts of classes", "", -1, epoch});
  }
  RankingValues rankings{};
  if (wants(MetricKind::kRocAuc) || wants(MetricKind::kAveragePrecision)) {
    rankings = rank_everywhere(rank, epoch, outcome);
  }
  SplitValues log_losses{};
  if (wants(MetricKind::kLogLoss)) {
    log_losses = outcome.log_losses();
    rank.transport.all_reduce(std::span(log_losses), {"log-loss", "", -1, epoch});
  }
  for (const Metric metric : metrics_of(data.dataset().task, "")) {
    if (!wants(metric.kind)) continue;
    SplitValues values{};
    for (std::size_t s = 0; s < kSplits; ++s) {
      const auto split = static_cast<Split>(s);
      switch (metric.kind) {
        case MetricKind::kRocAuc:
          values[s] = rankings.roc_auc[s];
          break;
        case MetricKind::kAveragePrecision:
          values[s] = rankings.average_precision[s];
          break;
        case MetricKind::kLogLoss:
          values[s] = ratio(log_losses[s], static_cast<double>(data.labelled_in(split)));
          break;
        default:
          values[s] = metrics.classes[s].value(metric.kind);
      }
    }
    metrics.all.push_back({metric, values});
  }
  return metrics;
}

// R2 of each number is 1 - (sum of squared errors) / spread; the metric is the mean over the
// numbers, without those whose labels are all alike. MAE and RMSE are over all labels.
Metrics regress(const Rank& rank, int epoch, const RankData& data, ConstMatrixView predictions) {
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
  SplitValues r2{};
  SplitValues mae{};
  SplitValues rmse{};
  const std::size_t columns = places / kSplits;
  for (std::size_t s = 0; s < kSplits; ++s) {
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
    r2[s] = ratio(explained, varied);
    mae[s] = ratio(distances, count);
    rmse[s] = std::sqrt(ratio(squares, count));
  }
  Metrics metrics;
  metrics.all = {{{MetricKind::kR2}, r2}, {{MetricKind::kMae}, mae}, {{MetricKind::kRmse}, rmse}};
  return metrics;
}

// Labelled nodes of one split in the order of their ids, and what they have.
struct LabelledSplit {
  std::vector<float> logits;
  std::vector<std::int32_t> classes;
  std::vector<std::uint8_t> multi_labels;
  std::vector<float> numbers;
};

// The nodes of all ranks go to the first one, which asks the program's function for each split.
Metrics judge_by_program(const Rank& rank, int epoch, const RankData& data, ConstMatrixView logits,
                         Metric metric) {
  rank.reducer.synchronize();
  const OperationLabel label{"metric of the program", "", -1, epoch};
  const Task task = data.dataset().task;
  const auto gathered = [&]<typename T>(bool has, std::span<const T> rows, std::int64_t columns) {
    if (!has) return std::vector<T>();
    return gather_rows(rank.transport, data.host_ids(), rows, columns, data.dataset().nodes, label);
  };
  std::vector<std::uint8_t> split(static_cast<std::size_t>(data.rows()), kSplits);
  for (std::size_t s = 0; s < kSplits; ++s) {
    for (const LocalId row : data.labelled_rows(static_cast<Split>(s))) {
      split[static_cast<std::size_t>(to_index(row))] = static_cast<std::uint8_t>(s);
    }
  }
  const std::int64_t outputs = data.outputs();
  const std::vector<float> host = download_f32(rank.backend, rank.queue, logits);
  const bool binary = task == Task::kBinary;
  const auto splits = gathered(true, std::span<const std::uint8_t>(split), 1);
  const auto all_logits = gathered(true, std::span<const float>(host), outputs);
  const auto classes = gathered(task == Task::kSingleLabel || binary, data.host_labels(), 1);
  const auto multi_labels = gathered(task == Task::kMultiLabel, data.host_multi_labels(), outputs);
  const auto numbers = gathered(task == Task::kRegression, data.host_numbers(), outputs);
  SplitValues values{kUnknownMetric, kUnknownMetric, kUnknownMetric};
  on_all_ranks(
      rank.transport,
      [&] {
        std::array<LabelledSplit, kSplits> judged;
        const auto add = [](auto& to, const auto& from, std::size_t row, std::int64_t columns) {
          if (from.empty()) return;
          const auto begin = from.begin() + static_cast<std::int64_t>(row) * columns;
          to.insert(to.end(), begin, begin + columns);
        };
        for (std::size_t i = 0; i < splits.size(); ++i) {
          if (splits[i] >= kSplits) continue;
          LabelledSplit& own = judged[splits[i]];
          add(own.logits, all_logits, i, outputs);
          add(own.multi_labels, multi_labels, i, outputs);
          add(own.numbers, numbers, i, outputs);
          if (binary) {
            own.multi_labels.push_back(static_cast<std::uint8_t>(classes[i]));
          } else {
            add(own.classes, classes, i, 1);
          }
        }
        const OwnMetric& own = own_functions().metrics.at(metric.own);
        for (std::size_t s = 0; s < kSplits; ++s) {
          const LabelledSplit& nodes = judged[s];
          if (nodes.logits.empty()) continue;
          values[s] = own.compute(
              {outputs, nodes.logits, nodes.classes, nodes.multi_labels, nodes.numbers});
        }
      },
      label);
  rank.transport.broadcast(std::as_writable_bytes(std::span(values)), 0, label);
  Metrics metrics;
  metrics.all = {{metric, values}};
  return metrics;
}

}  // namespace

const SplitValues* Metrics::find(Metric metric) const {
  const auto found = std::ranges::find(all, metric, &MetricValues::metric);
  return found == all.end() ? nullptr : &found->splits;
}

std::string to_text(const SplitValues& values) {
  const auto number = [](double value) {
    return std::isnan(value) ? std::string("-") : fmt::format("{:.4f}", value);
  };
  return fmt::format("train {}  valid {}  test {}", number(values[0]), number(values[1]),
                     number(values[2]));
}

std::string to_text(const Metrics& metrics) {
  return to_text(SplitValues{metrics.train, metrics.valid, metrics.test});
}

std::string undefined_reason(const RankData& data, Split split, Metric metric) {
  if (data.labelled_in(split) == 0) return "it has no labelled node";
  const std::span<const std::int64_t> counts = data.label_counts(split);
  const bool area = metric.kind == MetricKind::kRocAuc;
  if (data.dataset().task == Task::kRegression) {
    const LabelSpread& spread = data.label_spread();
    const auto first = static_cast<std::size_t>(split) * (spread.squares.size() / kSplits);
    const auto of_split = std::span(spread.squares).subspan(first, spread.squares.size() / kSplits);
    const bool alike = std::ranges::all_of(of_split, [](double squares) { return squares == 0; });
    return alike && metric.kind == MetricKind::kR2 ? "all its labels are alike" : "";
  }
  if (data.dataset().task == Task::kMultiLabel) {
    // Pairs of nodes without and with the label.
    bool both = false;
    bool some = false;
    for (std::size_t c = 0; c < counts.size(); c += 2) {
      both = both || (counts[c] > 0 && counts[c + 1] > 0);
      some = some || counts[c + 1] > 0;
    }
    if (area && !both) return "it has no label that some of its nodes have and others lack";
    if (metric.kind == MetricKind::kAveragePrecision && !some)
      return "none of its nodes has a label";
    return "";
  }
  const auto occurring = std::ranges::count_if(counts, [](std::int64_t n) { return n > 0; });
  const auto first = std::ranges::find_if(counts, [](std::int64_t n) { return n > 0; });
  if (area && occurring == 1) {
    return fmt::format("all its labelled nodes are of class {}", first - counts.begin());
  }
  const bool binary = data.dataset().task == Task::kBinary;
  if (binary && metric.kind == MetricKind::kAveragePrecision && counts[1] == 0) {
    return "none of its nodes is of class 1";
  }
  return "";
}

Metrics compute_metrics(const Rank& rank, int epoch, const RankData& data, ConstMatrixView logits,
                        ReadBackArray<std::int64_t>& counts, Metric chosen, MetricExtent extent) {
  const Task task = data.dataset().task;
  if (!data.labelled() || task == Task::kLinkPrediction) {  // the latter: LinkTask::evaluate()
    rank.reducer.synchronize();
    return {};
  }
  const bool counted = extent == MetricExtent::kChosen;
  const bool own = chosen.kind == MetricKind::kOwn;
  Metrics metrics;
  if (own && counted) {
    metrics = judge_by_program(rank, epoch, data, logits, chosen);
  } else if (counted && task == Task::kSingleLabel && chosen.kind == MetricKind::kAccuracy) {
    metrics.all = {{chosen, accuracy(rank, epoch, data, logits, counts)}};
  } else if (counted && task == Task::kMultiLabel && chosen.kind == MetricKind::kF1Micro) {
    metrics.all = {{chosen, micro_f1(rank, epoch, data, logits, counts)}};
  } else {
    metrics = task == Task::kRegression ? regress(rank, epoch, data, logits)
                                        : classify(rank, epoch, data, logits, chosen, extent);
    if (own) {
      const Metrics found = judge_by_program(rank, epoch, data, logits, chosen);
      metrics.all.push_back(found.all.front());
    }
  }
  const SplitValues* values = metrics.find(chosen);
  ATOLL_ASSERT(values != nullptr, "no {}", to_string(chosen));
  std::tie(metrics.train, metrics.valid, metrics.test) =
      std::tuple((*values)[0], (*values)[1], (*values)[2]);
  if (counted) metrics.classes.clear();
  return metrics;
}

}  // namespace atl
