#include "engine/nn/layer_tail.hpp"

namespace atl {

namespace {
constexpr double kEpsilon = 1e-5;
constexpr double kMomentum = 0.1;
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
}

void LayerTail::allocate(Backend& backend, Queue& queue) {
  if (config_.norm != Norm::kBatch) return;
  const std::int64_t width = config_.width;
  for (DeviceArray<double>* array :
       {&running_mean_, &running_variance_, &mean_, &inv_std_, &eval_inv_std_}) {
    *array = DeviceArray<double>(backend, width);
  }
  sums_ = DeviceArray<double>(backend, 2 * width);
  const std::vector<double> zeros(static_cast<std::size_t>(width), 0.0);
  const std::vector<double> ones(static_cast<std::size_t>(width), 1.0);
  running_mean_.upload(backend, queue, zeros);
  running_variance_.upload(backend, queue, ones);
}

DropoutThreshold LayerTail::dropout(const RankContext& context) const {
  return context.training ? dropout_ : DropoutThreshold{65536, 1.0F};
}

ActivationGradient LayerTail::activation(const RankContext& context, ConstMatrixView y,
                                         MatrixView dy) const {
  if (!config_.relu) return {};
  return {y, dropout(context).scale, dy};
}

void LayerTail::prepare_epilogue(const RankContext& context) {
  if (config_.norm != Norm::kBatch || context.training) return;
  context.backend.inverse_std(context.queue, running_variance_.span(), kEpsilon,
                              eval_inv_std_.span());
}

Epilogue LayerTail::epilogue(const RankContext& context, std::span<const GlobalId> ids) {
  Epilogue epilogue;
  epilogue.relu = config_.relu;
  epilogue.dropout.key = {context.seed, RandomStream::kDropout,
                          static_cast<std::uint8_t>(config_.layer),
                          static_cast<std::uint32_t>(context.epoch)};
  epilogue.dropout.rate = dropout(context);
  epilogue.dropout.row_ids = ids;
  epilogue.dropout.state = context.state;
  if (config_.norm == Norm::kLayer) return epilogue;
  epilogue.beta = parameters_.value(beta_);
  if (config_.norm == Norm::kBatch) {
    epilogue.gamma = parameters_.value(gamma_);
    epilogue.mean = context.training ? mean_.span() : running_mean_.span();
    epilogue.inv_std = context.training ? inv_std_.span() : eval_inv_std_.span();
  }
  return epilogue;
}

void LayerTail::forward_statistics(const RankContext& context, ConstMatrixView z) {
  {
    const ScopedSpan span(context.trace, "norm statistics", {context.epoch, config_.layer, -1, -1},
                          "forward");
    context.backend.batch_norm_moments(context.queue, z, running_mean_.span(), sums_.span());
  }
  context.reducer.sum(sums_.span(), "batch norm statistics", config_.layer, context.epoch);
  context.backend.batch_norm_statistics(context.queue, sums_.span(), context.nodes, kMomentum,
                                        kEpsilon, running_mean_.span(), running_variance_.span(),
                                        mean_.span(), inv_std_.span());
}

void LayerTail::forward_rows(const RankContext& context, std::span<const GlobalId> ids,
                             ConstMatrixView z, MatrixView y) {
  ConstMatrixView input = z;
  if (config_.norm == Norm::kLayer) {
    context.backend.layer_norm(context.queue, input, parameters_.value(gamma_),
                               parameters_.value(beta_), kEpsilon, y);
    input = y;
  }
  context.backend.apply_epilogue(context.queue, input, epilogue(context, ids), y);
}

void LayerTail::backward_statistics(const RankContext& context, ConstMatrixView y,
                                    ConstMatrixView z, MatrixView dy) {
  {
    const ScopedSpan span(context.trace, "norm statistics", {context.epoch, config_.layer, -1, -1},
                          "backward");
    // The parameters' gradients get this rank's share; the all-reduce of gradients adds the
    // others'.
    context.backend.batch_norm_gradient_sums(
        context.queue, dy, z, mean_.span(), inv_std_.span(), sums_.span(),
        parameters_.gradient(gamma_), parameters_.gradient(beta_), activation(context, y, dy));
  }
  context.reducer.sum(sums_.span(), "batch norm gradient", config_.layer, context.epoch);
}

void LayerTail::backward_rows(const RankContext& context, RowRange range, ConstMatrixView y,
                              ConstMatrixView z, MatrixView dy) {
  Backend& backend = context.backend;
  const MatrixView rows = dy.rows_in(range);
  if (config_.norm == Norm::kBatch) {
    backend.batch_norm_backward(context.queue, rows, z.rows_in(range), mean_.span(),
                                inv_std_.span(), parameters_.value(gamma_), sums_.span(),
                                context.nodes, rows);
    return;
  }
  const ActivationGradient activation = this->activation(context, y.rows_in(range), rows);
  if (config_.norm == Norm::kNone) {
    backend.column_sums(context.queue, rows, /*accumulate=*/true, parameters_.gradient(beta_),
                        activation);
    return;
  }
  if (!activation.absent()) backend.relu_dropout_backward(context.queue, rows, activation);
  backend.layer_norm_backward(context.queue, rows, z.rows_in(range), parameters_.value(gamma_),
                              kEpsilon, rows, parameters_.gradient(gamma_),
                              parameters_.gradient(beta_));
}

}  // namespace atl
