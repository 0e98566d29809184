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

}  // namespace

void CpuBackend::do_softmax_cross_entropy(Queue& queue, ConstMatrixView logits,
                                          std::span<const std::int32_t> labels,
                                          std::span<const LocalId> rows, double grad_scale,
                                          MatrixView dlogits, std::span<double> loss_sum) {
  do_fill_zero(queue, dlogits);
  const auto count = static_cast<std::int64_t>(rows.size());
  const auto scale = static_cast<float>(grad_scale);
  loss_sum[0] = sum_chunks(count, 1, [&](RowRange range, double* loss) {
    std::vector<float> memory = wide_memory(logits.dtype, 2, logits.cols);
    with_element(logits.dtype, [&]<typename T>(T) {
      for (std::int64_t k = range.begin; k < range.end; ++k) {
        const std::int64_t i = to_index(rows[k]);
        ATOLL_ASSERT(0 <= labels[i] && labels[i] < logits.cols, "row {}: label {}", i, labels[i]);
        float* to = row_to_compute(dlogits.row<T>(i), memory.data() + logits.cols);
        *loss += softmax_row(wide_row(logits.row<T>(i), logits.cols, memory.data()), logits.cols,
                             labels[i], scale, to);
        store_row(to, logits.cols, dlogits.row<T>(i));
      }
    });
  })[0];
}

void CpuBackend::do_sigmoid_cross_entropy(Queue& queue, ConstMatrixView logits,
                                          std::span<const std::uint8_t> targets,
                                          std::span<const LocalId> rows, double grad_scale,
                                          MatrixView dlogits, std::span<double> loss_sum) {
  do_fill_zero(queue, dlogits);
  const auto count = static_cast<std::int64_t>(rows.size());
  const auto scale = static_cast<float>(grad_scale);
  loss_sum[0] = sum_chunks(count, 1, [&](RowRange range, double* loss) {
    with_element(logits.dtype, [&]<typename T>(T) {
      for (std::int64_t k = range.begin; k < range.end; ++k) {
        const std::int64_t i = to_index(rows[k]);
        *loss += sigmoid_row(logits.row<T>(i), targets.data() + i * logits.cols, logits.cols, scale,
                             dlogits.row<T>(i));
      }
    });
  })[0];
}

// Counts are summed as doubles, exact up to 2^53.
void CpuBackend::do_count_correct(Queue&, ConstMatrixView logits,
                                  std::span<const std::int32_t> labels,
                                  std::span<const std::uint8_t> split,
                                  std::span<std::int64_t> counts) {
  const auto sums = sum_chunks(logits.rows, 6, [&](RowRange range, double* partial) {
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

void CpuBackend::do_count_multi_label(Queue&, ConstMatrixView logits,
                                      std::span<const std::uint8_t> targets,
                                      std::span<const std::uint8_t> split,
                                      std::span<std::int64_t> counts) {
  const auto sums = sum_chunks(logits.rows, 9, [&](RowRange range, double* partial) {
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
