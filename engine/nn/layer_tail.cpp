#include "engine/nn/layer_tail.hpp"

#include <cmath>

namespace atl {

namespace {
constexpr double kEpsilon = 1e-5;
constexpr double kMomentum = 0.1;

// The statistics live in host vectors; a backend with memory of its own gets copies by contract of
// its span arguments, which the host-accessible backends read in place.
std::vector<double> inverse_std(const std::vector<double>& variance) {
  std::vector<double> result(variance.size());
  for (std::size_t j = 0; j < variance.size(); ++j) {
    result[j] = 1 / std::sqrt(variance[j] + kEpsilon);
  }
  return result;
}
}  // namespace

LayerTail::LayerTail(const TailConfig& config, ParameterStore& parameters)
    : config_(config),
      name_("layers." + std::to_string(config.layer)),
      parameters_(parameters),
      dropout_(dropout_threshold(config.dropout)) {
  const bool has_norm = config.norm != Norm::kNone;
  if (has_norm) {
    gamma_ = parameters.declare(name_ + ".norm.weight", config.layer, 1, config.width,
                                Initialisation::kOnes);
  }
  beta_ = parameters.declare(name_ + (has_norm ? ".norm.bias" : ".bias"), config.layer, 1,
                             config.width, Initialisation::kZeros);
  if (config.norm == Norm::kBatch) {
    running_mean_.assign(static_cast<std::size_t>(config.width), 0.0);
    running_variance_.assign(static_cast<std::size_t>(config.width), 1.0);
  }
}

DropoutThreshold LayerTail::dropout(const RankContext& context) const {
  return context.training ? dropout_ : DropoutThreshold{65536, 1.0F};
}

void LayerTail::forward_statistics(const RankContext& context, ConstMatrixView z) {
  const auto width = static_cast<std::size_t>(config_.width);
  std::vector<double> mean(width);
  std::vector<double> m2(width);
  {
    const ScopedSpan span(context.trace, "norm statistics", {context.epoch, config_.layer, -1, -1},
                          "forward");
    context.backend.column_moments(context.queue, z, mean, m2);
    context.backend.synchronize(context.queue);
  }
  // Count, sum and sum of squares about the running mean, which all ranks share and which comes to
  // lie near the mean: one sum over ranks without cancellation (Chan et al. 1983 shifted data).
  const auto rows = static_cast<double>(z.rows);
  std::vector<double> sums(2 * width + 1);
  for (std::size_t j = 0; j < width; ++j) {
    const double shift = mean[j] - running_mean_[j];
    sums[j] = rows * shift;
    sums[width + j] = m2[j] + rows * shift * shift;
  }
  sums[2 * width] = rows;
  context.reducer.sum(sums, "batch norm statistics", config_.layer, context.epoch);

  const double count = sums[2 * width];
  global_rows_ = static_cast<std::int64_t>(count);
  mean_.resize(width);
  std::vector<double> variance(width);
  for (std::size_t j = 0; j < width; ++j) {
    const double shift = sums[j] / count;
    mean_[j] = running_mean_[j] + shift;
    variance[j] = std::max(0.0, sums[width + j] / count - shift * shift);
    const double unbiased = count > 1 ? variance[j] * count / (count - 1) : variance[j];
    running_mean_[j] += kMomentum * shift;
    running_variance_[j] += kMomentum * (unbiased - running_variance_[j]);
  }
  inv_std_ = inverse_std(variance);
}

Epilogue LayerTail::epilogue(const RankContext& context, RowRange range) const {
  Epilogue epilogue;
  epilogue.relu = config_.relu;
  epilogue.dropout.key = {context.seed, RandomStream::kDropout,
                          static_cast<std::uint8_t>(config_.layer),
                          static_cast<std::uint32_t>(context.epoch)};
  epilogue.dropout.rate = dropout(context);
  epilogue.dropout.row_ids = context.inner_ids.subspan(range.begin, range.size());
  return epilogue;
}

void LayerTail::forward_rows(const RankContext& context, RowRange range, ConstMatrixView z,
                             MatrixView y) {
  Epilogue work = epilogue(context, range);
  ConstMatrixView input = z.rows_in(range);
  const MatrixView output = y.rows_in(range);
  const ConstMatrixView beta = parameters_.value(beta_);
  if (config_.norm == Norm::kLayer) {
    context.backend.layer_norm(context.queue, input, parameters_.value(gamma_), beta, kEpsilon,
                               output);
    input = output;
  } else {
    work.beta = beta;
  }
  if (config_.norm == Norm::kBatch) {
    work.gamma = parameters_.value(gamma_);
    if (context.training) {
      work.mean = mean_;
      work.inv_std = inv_std_;
    } else {
      eval_inv_std_ = inverse_std(running_variance_);
      work.mean = running_mean_;
      work.inv_std = eval_inv_std_;
    }
  }
  context.backend.apply_epilogue(context.queue, input, work, output);
}

void LayerTail::backward_statistics(const RankContext& context, ConstMatrixView y,
                                    ConstMatrixView z, MatrixView dy) {
  const auto width = static_cast<std::size_t>(config_.width);
  std::vector<double> sums(2 * width);
  const std::span<double> sum_dy(sums.data(), width);
  const std::span<double> sum_dy_xhat(sums.data() + width, width);
  {
    const ScopedSpan span(context.trace, "norm statistics", {context.epoch, config_.layer, -1, -1},
                          "backward");
    if (config_.relu) {
      context.backend.relu_dropout_backward(context.queue, y, dy, dropout(context).scale, dy);
    }
    context.backend.batch_norm_sums(context.queue, dy, z, mean_, inv_std_, sum_dy, sum_dy_xhat);
    // This rank's share of the parameters' gradients; the all-reduce of gradients adds the others'.
    Backend& backend = context.backend;
    const auto add_gradient = [&](int parameter, std::span<const double> values) {
      const MatrixView gradient = parameters_.gradient(parameter);
      ATOLL_ASSERT(backend.host_accessible());
      for (std::size_t j = 0; j < width; ++j) {
        if (gradient.dtype == DType::kF64) {
          gradient.row<double>(0)[j] += values[j];
        } else {
          gradient.row<float>(0)[j] += static_cast<float>(values[j]);
        }
      }
    };
    add_gradient(beta_, sum_dy);
    add_gradient(gamma_, sum_dy_xhat);
  }
  context.reducer.sum(sums, "batch norm gradient", config_.layer, context.epoch);
  mean_dy_.assign(sum_dy.begin(), sum_dy.end());
  mean_dy_xhat_.assign(sum_dy_xhat.begin(), sum_dy_xhat.end());
  for (std::size_t j = 0; j < width; ++j) {
    mean_dy_[j] /= static_cast<double>(global_rows_);
    mean_dy_xhat_[j] /= static_cast<double>(global_rows_);
  }
}

void LayerTail::backward_rows(const RankContext& context, RowRange range, ConstMatrixView y,
                              ConstMatrixView z, MatrixView dy) {
  Backend& backend = context.backend;
  const MatrixView rows = dy.rows_in(range);
  if (config_.norm == Norm::kBatch) {
    backend.batch_norm_backward(context.queue, rows, z.rows_in(range), mean_, inv_std_,
                                parameters_.value(gamma_), mean_dy_, mean_dy_xhat_, rows);
    return;
  }
  if (config_.relu) {
    backend.relu_dropout_backward(context.queue, y.rows_in(range), rows, dropout(context).scale,
                                  rows);
  }
  if (config_.norm == Norm::kLayer) {
    backend.layer_norm_backward(context.queue, rows, z.rows_in(range), parameters_.value(gamma_),
                                kEpsilon, rows, parameters_.gradient(gamma_),
                                parameters_.gradient(beta_));
  } else {
    backend.column_sums(context.queue, rows, /*accumulate=*/true, parameters_.gradient(beta_));
  }
}

}  // namespace atl
