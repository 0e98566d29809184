// Losses and metrics, in parallel over rows.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/error.hpp"
#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/exponential.hpp"
#include "kernels/focus_factors.hpp"

namespace atl {

namespace {

constexpr std::int64_t kRowUnit = 32;  // columns of the widest Pair

std::int64_t whole_units(std::int64_t cols) { return (cols + kRowUnit - 1) / kRowUnit * kRowUnit; }

// values[j] = exp(logits[j] - the largest of them), `values` has whole_units(classes) entries.
// Returns the largest and the sum of the values, added in double.
template <int kBytes, typename T>
ATOLL_INLINE inline std::pair<float, double> exponentials(const T* logits, std::int64_t classes,
                                                          float* values) {
  using Floats = typename Vectors<kBytes>::Floats;
  using Doubles = typename Vectors<kBytes>::Doubles;
  constexpr std::int64_t kLanes = Vectors<kBytes>::kLanes;
  // In whole vectors, and in what softmax_row reads at least.
  constexpr std::int64_t kUnit = std::max(kLanes, Pair<16>::kColumns);
  const std::int64_t whole = (classes + kUnit - 1) / kUnit * kUnit;
  convert_columns<kBytes>(logits, classes, values);
  // The filling of the last unit is no maximum, and its exponential is 0.
  for (std::int64_t j = classes; j < whole; ++j) {
    values[j] = -std::numeric_limits<float>::infinity();
  }
  Floats most = Floats{} - std::numeric_limits<float>::infinity();
  for (std::int64_t j = 0; j < whole; j += kLanes) {
    Floats some;
    std::memcpy(&some, values + j, kBytes);
    most = most < some ? some : most;
  }
  fold(most, [](const Floats& a, const Floats& b, Floats& to) ATOLL_INLINE { to = a < b ? b : a; });
  const float largest = most[0];
  Doubles sums[2] = {};
  for (std::int64_t j = 0; j < whole; j += kLanes) {
    Floats some;
    std::memcpy(&some, values + j, kBytes);
    exponential<kBytes>(some - largest, some);
    std::memcpy(values + j, &some, kBytes);
#pragma GCC unroll 2
    for (int k = 0; k < 2; ++k) {
      Doubles part;
      load_doubles<kBytes>(values + j + k * kLanes / 2, part);
      sums[k] += part;
    }
  }
  sums[0] += sums[1];
  fold(sums[0], [](const Doubles& a, const Doubles& b, Doubles& to) ATOLL_INLINE { to = a + b; });
  const double sum = sums[0][0];
  return {largest, sum};
}

// Loss of one row; its gradient goes to `dlogits`. memory: whole_units(classes) entries.
template <int kBytes, typename T>
ATOLL_INLINE inline double softmax_row(const T* logits, std::int64_t classes, std::int32_t label,
                                       float grad_scale, float* memory, T* dlogits) {
  const auto [largest, sum] = exponentials<kBytes>(logits, classes, memory);
  const auto factor = static_cast<float>(1 / sum);
  for_columns<kBytes>(0, classes, [&]<int kUnit>(std::int64_t j, auto part) ATOLL_INLINE {
    typename Vectors<kUnit>::Floats values[2];
    // Behind the last column `memory` has zeros.
    Pair<kUnit>::load(memory + j, Whole{}, values);
#pragma GCC unroll 2
    for (int r = 0; r < 2; ++r) values[r] = grad_scale * (values[r] * factor);
    Pair<kUnit>::store(values, part, dlogits + j);
  });
  store(dlogits, label, grad_scale * (memory[label] * factor - 1.0F));
  return std::log(sum) - (static_cast<double>(load(logits, label)) - static_cast<double>(largest));
}

// The same where the label is not all; `spread`: what every class is wanted for beside the label,
// times its weight (SoftmaxTarget). weights: null where all are 1.
template <int kBytes, typename T>
ATOLL_INLINE inline double spread_row(const T* logits, std::int64_t classes, std::int32_t label,
                                      const float* weights, double smoothing, double focus,
                                      double grad_scale, float* memory, T* dlogits) {
  const auto [largest, sum] = exponentials<kBytes>(logits, classes, memory);
  const double spread = smoothing / static_cast<double>(classes);
  const double label_weight = weights == nullptr ? 1 : static_cast<double>(weights[label]);
  const auto above = [&, most = static_cast<double>(largest)](std::int64_t j) {
    return static_cast<double>(load(logits, j)) - most;
  };
  double all_wanted = (1 - smoothing) * label_weight;
  double wanted_above = all_wanted * above(label);
  for (std::int64_t j = 0; spread > 0 && j < classes; ++j) {
    const double wanted = spread * (weights == nullptr ? 1 : static_cast<double>(weights[j]));
    all_wanted += wanted;
    wanted_above += wanted * above(j);
  }
  const double loss = all_wanted * std::log(sum) - wanted_above;
  const auto label_power = static_cast<double>(memory[label]);
  const FocusFactors factors(focus, label_power / sum, (sum - label_power) / sum,
                             std::log(sum) - above(label));
  grad_scale *= factors.slope;
  const double factor = grad_scale * all_wanted / sum;
  for (std::int64_t j = 0; j < classes; ++j) {
    const double wanted = spread * (weights == nullptr ? 1 : static_cast<double>(weights[j])) +
                          (j == label ? (1 - smoothing) * label_weight : 0);
    const double power = memory[j];
    store(dlogits, j, static_cast<float>(factor * power - grad_scale * wanted));
  }
  return factors.loss * loss;
}

template <typename T>
double sigmoid_row(const T* logits, const std::uint8_t* targets, std::int64_t classes,
                   float grad_scale, T* dlogits) {
  double loss = 0;
  for (std::int64_t j = 0; j < classes; ++j) {
    if (targets[j] == 255) continue;
    const float z = load(logits, j);
    const auto target = static_cast<float>(targets[j]);
    // log(1 + exp(z)) - target * z and its derivative from one exponential that can't overflow.
    const float small = std::exp(-std::abs(z));
    loss += static_cast<double>((z < 0.0F ? 0.0F : z) - z * target + std::log1p(small));
    const float probability = (z < 0.0F ? small : 1.0F) / (1.0F + small);
    store(dlogits, j, grad_scale * (probability - target));
  }
  return loss;
}

// The same with weights of targets 0 and 1 for each class (null: all 1) and a focus.
template <typename T>
double weighted_sigmoid_row(const T* logits, const std::uint8_t* targets, std::int64_t classes,
                            const float* weights, double focus, double grad_scale, T* dlogits) {
  double loss = 0;
  for (std::int64_t j = 0; j < classes; ++j) {
    if (targets[j] == 255) continue;
    const double weight = weights == nullptr ? 1 : static_cast<double>(weights[2 * j + targets[j]]);
    // The logit of what is wanted, its probability and that of the other.
    const double sign = targets[j] == 1 ? 1 : -1;
    const double z = sign * static_cast<double>(load(logits, j));
    const double small = std::exp(-std::abs(z));
    const double probability = (z < 0 ? small : 1) / (1 + small);
    const double missed = (z < 0 ? 1 : small) / (1 + small);
    const double minus_log = (z < 0 ? -z : 0.0) + std::log1p(small);
    const FocusFactors factors(focus, probability, missed, minus_log);
    loss += weight * factors.loss * minus_log;
    store(dlogits, j, static_cast<float>(-sign * grad_scale * weight * factors.slope * missed));
  }
  return loss;
}

template <typename T>
double error_row(ErrorMeasure measure, const T* values, const float* targets, std::int64_t columns,
                 float grad_scale, T* dvalues) {
  double loss = 0;
  for (std::int64_t j = 0; j < columns; ++j) {
    if (std::isnan(targets[j])) continue;
    const float error = load(values, j) - targets[j];
    const auto wide = static_cast<double>(error);
    if (measure == ErrorMeasure::kSquared) {
      loss += wide * wide;
      store(dvalues, j, grad_scale * (2 * error));
    } else {
      loss += std::abs(wide);
      store(dvalues, j, grad_scale * (error > 0 ? 1.0F : error < 0 ? -1.0F : error));
    }
  }
  return loss;
}

template <typename T>
std::int64_t first_maximum(const T* values, std::int64_t count) {
  std::int64_t best = 0;
  for (std::int64_t j = 1; j < count; ++j) {
    if (load(values, j) > load(values, best)) best = j;
  }
  return best;
}

// Adds true positives, false positives and false negatives of one row to count[0], [1] and [2].
template <typename T>
void count_labels(const T* logits, const std::uint8_t* targets, std::int64_t classes,
                  double* count) {
  for (std::int64_t j = 0; j < classes; ++j) {
    if (targets[j] == 255) continue;
    if (load(logits, j) > 0.0F) {
      count[targets[j] == 1 ? 0 : 1] += 1;
    } else if (targets[j] == 1) {
      count[2] += 1;
    }
  }
}

// loss_sum = sum of what body(range, loss) adds to *loss over the listed rows, in chunks; dlogits
// is zero elsewhere.
template <typename Body>
void sum_losses(CpuBackend& backend, Queue& queue, std::span<const LocalId> rows,
                MatrixView dlogits, std::span<double> loss_sum, const Body& body) {
  kernel(backend, queue, kernels::FillZero{dlogits});
  const auto count = static_cast<std::int64_t>(rows.size());
  loss_sum[0] = backend.sum_chunks(count, dlogits.cols, 1, body)[0];
}

// ... where row_loss.operator()<kBytes>(T(), i, wide) is the loss of row i, `wide` room for a row
// of floats.
template <typename RowLoss>
void sum_label_losses(CpuBackend& backend, Queue& queue, std::span<const std::int32_t> labels,
                      std::span<const LocalId> rows, MatrixView dlogits, std::span<double> loss_sum,
                      const RowLoss& row_loss) {
  const Isa isa = backend.isa();
  sum_losses(backend, queue, rows, dlogits, loss_sum, [&](RowRange range, double* loss) {
    WideRows memory(1, whole_units(dlogits.cols));
    run_with_vectors(isa, dlogits.dtype, [&]<int kBytes, typename T>(T type) ATOLL_INLINE {
      for (std::int64_t k = range.begin; k < range.end; ++k) {
        const std::int64_t i = to_index(rows[k]);
        ATOLL_ASSERT(0 <= labels[i] && labels[i] < dlogits.cols, "row {}: label {}", i, labels[i]);
        *loss += row_loss.template operator()<kBytes>(type, i, memory.row(0));
      }
    });
  });
}

// ... where row_loss(T(), i) is the loss of row i.
template <typename RowLoss>
void sum_entry_losses(CpuBackend& backend, Queue& queue, std::span<const LocalId> rows,
                      MatrixView dlogits, std::span<double> loss_sum, const RowLoss& row_loss) {
  sum_losses(backend, queue, rows, dlogits, loss_sum, [&](RowRange range, double* loss) {
    with_element(dlogits.dtype, [&](auto type) {
      for (std::int64_t k = range.begin; k < range.end; ++k)
        *loss += row_loss(type, to_index(rows[k]));
    });
  });
}

void spread_cross_entropy(CpuBackend& backend, Queue& queue,
                          const kernels::SoftmaxCrossEntropy& call) {
  const auto& [logits, labels, rows, grad_scale, dlogits, loss_sum, target] = call;
  const float* weights = target.class_weights.empty() ? nullptr : target.class_weights.data();
  sum_label_losses(backend, queue, labels, rows, dlogits, loss_sum,
                   [&]<int kBytes, typename T>(T, std::int64_t i, float* wide) ATOLL_INLINE {
                     return spread_row<kBytes>(logits.row<T>(i), logits.cols, labels[i], weights,
                                               target.smoothing, target.focus, grad_scale, wide,
                                               dlogits.row<T>(i));
                   });
}

void weighted_sigmoid(CpuBackend& backend, Queue& queue, const kernels::SigmoidCrossEntropy& call) {
  const auto& [logits, targets, rows, grad_scale, dlogits, loss_sum, target] = call;
  const float* weights = target.weights.empty() ? nullptr : target.weights.data();
  sum_entry_losses(backend, queue, rows, dlogits, loss_sum, [&]<typename T>(T, std::int64_t i) {
    return weighted_sigmoid_row(logits.row<T>(i), targets.data() + i * logits.cols, logits.cols,
                                weights, target.focus, grad_scale, dlogits.row<T>(i));
  });
}

}  // namespace

void kernel(CpuBackend& backend, Queue& queue, const kernels::SoftmaxCrossEntropy& call) {
  if (!call.target.label_only()) return spread_cross_entropy(backend, queue, call);
  const auto& [logits, labels, rows, grad_scale, dlogits, loss_sum, target] = call;
  const auto scale = static_cast<float>(grad_scale);
  sum_label_losses(backend, queue, labels, rows, dlogits, loss_sum,
                   [&]<int kBytes, typename T>(T, std::int64_t i, float* wide) ATOLL_INLINE {
                     return softmax_row<kBytes>(logits.row<T>(i), logits.cols, labels[i], scale,
                                                wide, dlogits.row<T>(i));
                   });
}

void kernel(CpuBackend& backend, Queue& queue, const kernels::SigmoidCrossEntropy& call) {
  if (!call.target.target_only()) return weighted_sigmoid(backend, queue, call);
  const auto& [logits, targets, rows, grad_scale, dlogits, loss_sum, target] = call;
  const auto scale = static_cast<float>(grad_scale);
  sum_entry_losses(backend, queue, rows, dlogits, loss_sum, [&]<typename T>(T, std::int64_t i) {
    return sigmoid_row(logits.row<T>(i), targets.data() + i * logits.cols, logits.cols, scale,
                       dlogits.row<T>(i));
  });
}

void kernel(CpuBackend& backend, Queue& queue, const kernels::ErrorLoss& call) {
  const auto& [measure, values, targets, rows, grad_scale, dvalues, loss_sum] = call;
  const auto scale = static_cast<float>(grad_scale);
  sum_entry_losses(backend, queue, rows, dvalues, loss_sum, [&]<typename T>(T, std::int64_t i) {
    return error_row(measure, values.row<T>(i), targets.data() + i * values.cols, values.cols,
                     scale, dvalues.row<T>(i));
  });
}

// Counts are summed as doubles, exact up to 2^53.
void kernel(CpuBackend& backend, Queue&, const kernels::CountCorrect& call) {
  const auto& [logits, labels, split, counts] = call;
  const auto sums =
      backend.sum_chunks(logits.rows, logits.cols, 6, [&](RowRange range, double* partial) {
        with_element(logits.dtype, [&]<typename T>(T) {
          for (std::int64_t i = range.begin; i < range.end; ++i) {
            if (split[i] > 2 || labels[i] < 0) continue;
            const std::int64_t best = first_maximum(logits.row<T>(i), logits.cols);
            const bool number = !std::isnan(load(logits.row<T>(i), best));
            partial[2 * split[i]] += number && best == labels[i] ? 1 : 0;
            partial[2 * split[i] + 1] += 1;
          }
        });
      });
  for (std::size_t k = 0; k < 6; ++k) counts[k] = static_cast<std::int64_t>(sums[k]);
}

void kernel(CpuBackend& backend, Queue&, const kernels::CountMultiLabel& call) {
  const auto& [logits, targets, split, counts] = call;
  const auto sums =
      backend.sum_chunks(logits.rows, logits.cols, 9, [&](RowRange range, double* partial) {
        with_element(logits.dtype, [&]<typename T>(T) {
          for (std::int64_t i = range.begin; i < range.end; ++i) {
            if (split[i] > 2) continue;
            count_labels(logits.row<T>(i), targets.data() + i * logits.cols, logits.cols,
                         partial + 3 * split[i]);
          }
        });
      });
  for (std::size_t k = 0; k < 9; ++k) counts[k] = static_cast<std::int64_t>(sums[k]);
}

}  // namespace atl
