// Losses and metrics, in parallel over rows.
#include <cmath>

#include "base/error.hpp"
#include "kernels/cpu/cpu_backend.hpp"

namespace atl {

namespace {

// Loss of one row; its gradient goes to `dlogits`, which holds the exponentials in between.
double softmax_row(const float* logits, std::int64_t classes, std::int32_t label, float grad_scale,
                   float* dlogits) {
  float largest = logits[0];
  for (std::int64_t j = 1; j < classes; ++j) largest = std::max(largest, logits[j]);
  double sum = 0;
  for (std::int64_t j = 0; j < classes; ++j) {
    dlogits[j] = std::exp(logits[j] - largest);
    sum += static_cast<double>(dlogits[j]);
  }
  const auto factor = static_cast<float>(1 / sum);
  for (std::int64_t j = 0; j < classes; ++j) {
    const float probability = dlogits[j] * factor;
    dlogits[j] = grad_scale * (j == label ? probability - 1.0F : probability);
  }
  return std::log(sum) - (static_cast<double>(logits[label]) - static_cast<double>(largest));
}

double sigmoid_row(const float* logits, const std::uint8_t* targets, std::int64_t classes,
                   float grad_scale, float* dlogits) {
  double loss = 0;
  for (std::int64_t j = 0; j < classes; ++j) {
    if (targets[j] == 255) continue;
    const float z = logits[j];
    const auto target = static_cast<float>(targets[j]);
    // log(1 + exp(z)) - target * z and its derivative from one exponential that can't overflow.
    const float small = std::exp(-std::abs(z));
    loss += static_cast<double>((z < 0.0F ? 0.0F : z) - z * target + std::log1p(small));
    const float probability = (z < 0.0F ? small : 1.0F) / (1.0F + small);
    dlogits[j] = grad_scale * (probability - target);
  }
  return loss;
}

std::int64_t first_maximum(const float* values, std::int64_t count) {
  std::int64_t best = 0;
  for (std::int64_t j = 1; j < count; ++j) {
    if (values[j] > values[best]) best = j;
  }
  return best;
}

}  // namespace

void CpuBackend::do_softmax_cross_entropy(Queue& queue, ConstMatrixView logits,
                                          std::span<const std::int32_t> labels,
                                          std::span<const LocalId> rows, double grad_scale,
                                          MatrixView dlogits, std::span<double> loss_sum) {
  do_fill_zero(queue, dlogits);
  const auto count = static_cast<std::int64_t>(rows.size());
  loss_sum[0] = sum_chunks(count, 1, [&](RowRange range, double* loss) {
    for (std::int64_t k = range.begin; k < range.end; ++k) {
      const std::int64_t i = to_index(rows[k]);
      ATOLL_ASSERT(0 <= labels[i] && labels[i] < logits.cols, "row {}: label {}", i, labels[i]);
      *loss += softmax_row(logits.row<float>(i), logits.cols, labels[i],
                           static_cast<float>(grad_scale), dlogits.row<float>(i));
    }
  })[0];
}

void CpuBackend::do_sigmoid_cross_entropy(Queue& queue, ConstMatrixView logits,
                                          std::span<const std::uint8_t> targets,
                                          std::span<const LocalId> rows, double grad_scale,
                                          MatrixView dlogits, std::span<double> loss_sum) {
  do_fill_zero(queue, dlogits);
  const auto count = static_cast<std::int64_t>(rows.size());
  loss_sum[0] = sum_chunks(count, 1, [&](RowRange range, double* loss) {
    for (std::int64_t k = range.begin; k < range.end; ++k) {
      const std::int64_t i = to_index(rows[k]);
      *loss += sigmoid_row(logits.row<float>(i), targets.data() + i * logits.cols, logits.cols,
                           static_cast<float>(grad_scale), dlogits.row<float>(i));
    }
  })[0];
}

// Counts are summed as doubles, exact up to 2^53.
void CpuBackend::do_count_correct(Queue&, ConstMatrixView logits,
                                  std::span<const std::int32_t> labels,
                                  std::span<const std::uint8_t> split,
                                  std::span<std::int64_t> counts) {
  const auto sums = sum_chunks(logits.rows, 6, [&](RowRange range, double* partial) {
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      if (split[i] > 2 || labels[i] < 0) continue;
      const std::int64_t best = first_maximum(logits.row<float>(i), logits.cols);
      const bool number = !std::isnan(logits.row<float>(i)[best]);
      partial[2 * split[i]] += number && best == labels[i] ? 1 : 0;
      partial[2 * split[i] + 1] += 1;
    }
  });
  for (std::size_t k = 0; k < 6; ++k) counts[k] = static_cast<std::int64_t>(sums[k]);
}

void CpuBackend::do_count_multi_label(Queue&, ConstMatrixView logits,
                                      std::span<const std::uint8_t> targets,
                                      std::span<const std::uint8_t> split,
                                      std::span<std::int64_t> counts) {
  const auto sums = sum_chunks(logits.rows, 9, [&](RowRange range, double* partial) {
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      if (split[i] > 2) continue;
      const float* row = logits.row<float>(i);
      double* count = partial + 3 * split[i];
      for (std::int64_t j = 0; j < logits.cols; ++j) {
        const std::uint8_t target = targets[i * logits.cols + j];
        if (target == 255) continue;
        if (row[j] > 0) {
          count[target == 1 ? 0 : 1] += 1;
        } else if (target == 1) {
          count[2] += 1;
        }
      }
    }
  });
  for (std::size_t k = 0; k < 9; ++k) counts[k] = static_cast<std::int64_t>(sums[k]);
}

}  // namespace atl
