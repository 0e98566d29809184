// Losses and metrics of the oracle.
#include <algorithm>
#include <cmath>

#include "kernels/reference/elements.hpp"
#include "kernels/reference/reference_backend.hpp"

namespace atl {

namespace {

// Sum of row_loss(T(), i) over the listed rows, in their order; T is the type of the values.
template <typename RowLoss>
double sum_over_rows(ConstMatrixView values, std::span<const LocalId> rows,
                     const RowLoss& row_loss) {
  double loss = 0;
  with_value_type(values.dtype, [&]<typename T>(T type) {
    for (const LocalId id : rows) {
      const std::int64_t i = to_index(id);
      ATOLL_ASSERT(0 <= i && i < values.rows, "row {} of {}", i, values.rows);
      loss += row_loss(type, i);
    }
  });
  return loss;
}

// The label of row i, and the largest of its logits.
std::int32_t label_of(std::span<const std::int32_t> labels, std::int64_t i, std::int64_t classes) {
  ATOLL_ASSERT(0 <= labels[i] && labels[i] < classes, "row {}: label {}", i, labels[i]);
  return labels[i];
}
template <typename T>
double largest_of(ConstMatrixView logits, std::int64_t i) {
  double largest = at<T>(logits, i, 0);
  for (std::int64_t j = 1; j < logits.cols; ++j) largest = std::max(largest, at<T>(logits, i, j));
  return largest;
}

// Factors that a focus g puts on the cross-entropy l = -log p of what is wanted and on its
// gradient: (1 - p)^g, and (1 - p)^g (1 + g p l / (1 - p)), whose fraction goes to 1 where p goes
// to 1.
struct Focus {
  double loss = 1;
  double slope = 1;

  Focus(double focus, double minus_log) {
    if (focus == 0) return;
    const double probability = std::exp(-minus_log);
    const double missed = -std::expm1(-minus_log);
    loss = std::pow(missed, focus);
    slope = loss * (1 + focus * (missed > 0 ? probability * minus_log / missed : 1));
  }
};

}  // namespace

void kernel(ReferenceBackend& backend, Queue& queue, const kernels::SoftmaxCrossEntropy& call) {
  const auto& [logits, labels, rows, grad_scale, dlogits, loss_sum, target] = call;
  kernel(backend, queue, kernels::FillZero{dlogits});
  const std::int64_t classes = logits.cols;
  const auto weight = [&](std::int64_t c) {
    return target.class_weights.empty() ? 1.0 : static_cast<double>(target.class_weights[c]);
  };
  loss_sum[0] = sum_over_rows(logits, rows, [&]<typename T>(T, std::int64_t i) {
    const std::int32_t label = label_of(labels, i, classes);
    const auto wanted = [&](std::int64_t c) {
      return (c == label ? (1 - target.smoothing) * weight(label) : 0) +
             target.smoothing / static_cast<double>(classes) * weight(c);
    };
    const double largest = largest_of<T>(logits, i);
    double sum = 0;
    double all_wanted = 0;
    for (std::int64_t j = 0; j < classes; ++j) {
      sum += std::exp(at<T>(logits, i, j) - largest);
      all_wanted += wanted(j);
    }
    const double label_log = std::log(sum) - (at<T>(logits, i, label) - largest);
    const Focus focus(target.focus, label_log);
    double loss = 0;
    for (std::int64_t j = 0; j < classes; ++j) {
      const double above = at<T>(logits, i, j) - largest;
      if (wanted(j) != 0) loss += focus.loss * wanted(j) * (std::log(sum) - above);
      set<T>(dlogits, i, j,
             grad_scale * focus.slope * (all_wanted * std::exp(above) / sum - wanted(j)));
    }
    return loss;
  });
}

namespace {

void weighted_sigmoid(ReferenceBackend& backend, Queue& queue,
                      const kernels::SigmoidCrossEntropy& call) {
  const auto& [logits, targets, rows, grad_scale, dlogits, loss_sum, target] = call;
  kernel(backend, queue, kernels::FillZero{dlogits});
  loss_sum[0] = sum_over_rows(logits, rows, [&]<typename T>(T, std::int64_t i) {
    double loss = 0;
    for (std::int64_t j = 0; j < logits.cols; ++j) {
      const std::uint8_t wanted = targets[i * logits.cols + j];
      if (wanted == 255) continue;
      ATOLL_ASSERT(wanted <= 1, "row {}, class {}: target {}", i, j, wanted);
      const double weight =
          target.weights.empty() ? 1 : static_cast<double>(target.weights[2 * j + wanted]);
      // The sign of the logit towards what is wanted.
      const double sign = wanted == 1 ? 1 : -1;
      const double z = sign * at<T>(logits, i, j);
      const double minus_log = std::max(-z, 0.0) + std::log1p(std::exp(-std::abs(z)));
      const Focus focus(target.focus, minus_log);
      loss += weight * focus.loss * minus_log;
      set<T>(dlogits, i, j, grad_scale * weight * focus.slope * -sign * (1 / (1 + std::exp(z))));
    }
    return loss;
  });
}

}  // namespace

void kernel(ReferenceBackend& backend, Queue& queue, const kernels::SigmoidCrossEntropy& call) {
  if (!call.target.target_only()) return weighted_sigmoid(backend, queue, call);
  const auto& [logits, targets, rows, grad_scale, dlogits, loss_sum, unweighted] = call;
  kernel(backend, queue, kernels::FillZero{dlogits});
  loss_sum[0] = sum_over_rows(logits, rows, [&]<typename T>(T, std::int64_t i) {
    double loss = 0;
    for (std::int64_t j = 0; j < logits.cols; ++j) {
      const std::uint8_t target = targets[i * logits.cols + j];
      if (target == 255) continue;
      ATOLL_ASSERT(target <= 1, "row {}, class {}: target {}", i, j, target);
      const double z = at<T>(logits, i, j);
      // log(1 + exp(z)) - target * z without overflow.
      loss += std::max(z, 0.0) - z * target + std::log1p(std::exp(-std::abs(z)));
      set<T>(dlogits, i, j, grad_scale * (1 / (1 + std::exp(-z)) - target));
    }
    return loss;
  });
}

void kernel(ReferenceBackend& backend, Queue& queue, const kernels::ErrorLoss& call) {
  const auto& [measure, values, targets, rows, grad_scale, dvalues, loss_sum] = call;
  kernel(backend, queue, kernels::FillZero{dvalues});
  const bool squared = measure == ErrorMeasure::kSquared;
  loss_sum[0] = sum_over_rows(values, rows, [&]<typename T>(T, std::int64_t i) {
    double loss = 0;
    for (std::int64_t j = 0; j < values.cols; ++j) {
      const auto target = static_cast<double>(targets[i * values.cols + j]);
      if (std::isnan(target)) continue;
      const double error = at<T>(values, i, j) - target;
      loss += squared ? error * error : std::abs(error);
      const double sign = error > 0 ? 1 : error < 0 ? -1 : error;
      set<T>(dvalues, i, j, grad_scale * (squared ? 2 * error : sign));
    }
    return loss;
  });
}

void kernel(ReferenceBackend&, Queue&, const kernels::CountCorrect& call) {
  const auto& [logits, labels, split, counts] = call;
  std::fill(counts.begin(), counts.end(), 0);
  with_value_type(logits.dtype, [&]<typename T>(T) {
    for (std::int64_t i = 0; i < logits.rows; ++i) {
      if (split[i] > 2 || labels[i] < 0) continue;
      std::int64_t best = 0;
      for (std::int64_t j = 1; j < logits.cols; ++j) {
        if (at<T>(logits, i, j) > at<T>(logits, i, best)) best = j;
      }
      const bool number = !std::isnan(at<T>(logits, i, best));
      counts[2 * split[i]] += number && best == labels[i] ? 1 : 0;
      counts[2 * split[i] + 1] += 1;
    }
  });
}

void kernel(ReferenceBackend&, Queue&, const kernels::CountMultiLabel& call) {
  const auto& [logits, targets, split, counts] = call;
  std::fill(counts.begin(), counts.end(), 0);
  with_value_type(logits.dtype, [&]<typename T>(T) {
    for (std::int64_t i = 0; i < logits.rows; ++i) {
      if (split[i] > 2) continue;
      for (std::int64_t j = 0; j < logits.cols; ++j) {
        const std::uint8_t target = targets[i * logits.cols + j];
        if (target == 255) continue;
        const bool predicted = at<T>(logits, i, j) > 0;
        if (predicted && target == 1) ++counts[3 * split[i]];
        if (predicted && target == 0) ++counts[3 * split[i] + 1];
        if (!predicted && target == 1) ++counts[3 * split[i] + 2];
      }
    }
  });
}

}  // namespace atl
