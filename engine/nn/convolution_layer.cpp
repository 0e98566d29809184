#include "engine/nn/convolution_layer.hpp"

#include <algorithm>

namespace atl {

ConvolutionLayer::ConvolutionLayer(const LayerConfig& config, bool root_weight,
                                   const GraphOperators& operators, ParameterStore& parameters,
                                   TensorArena& arena)
    : config_(config),
      operators_(operators),
      parameters_(parameters),
      weight_(parameters.declare("layers." + std::to_string(config.index) + ".weight", config.index,
                                 config.in, config.out, Initialisation::kGlorotUniform)),
      root_(root_weight ? parameters.declare(
                              "layers." + std::to_string(config.index) + ".root_weight",
                              config.index, config.in, config.out, Initialisation::kGlorotUniform)
                        : -1),
      tail_(config.tail, parameters) {
  ATOLL_ASSERT(!config.cache_aggregate || (config.constant_input && !multiply_first()));
  const std::int64_t inner = operators.forward().inner();
  halo_ = config.computes_halo ? operators.computed_halo() : nullptr;
  const std::int64_t computed = halo_ != nullptr ? halo_->rows() : 0;
  if (!multiply_first()) aggregated_ = &arena.declare(inner + computed, config.in);
  if (tail_.keeps_input()) pre_norm_ = &arena.declare(inner, config.out);
  if (halo_ == nullptr) return;
  ATOLL_ASSERT(config.cache_aggregate);
  if (root_weight) halo_input_ = &arena.declare(computed, config.in);
  if (tail_.keeps_input()) halo_pre_norm_ = &arena.declare(computed, config.out);
  halo_output_ = &arena.declare(computed, config.out);
}

const DistributedOperator& ConvolutionLayer::aggregated_by(Direction direction) const {
  if (direction == Direction::kBackward) return operators_.backward();
  return config_.halo_computed ? operators_.computed_halo()->fetched() : operators_.forward();
}

std::int64_t ConvolutionLayer::input_rows() const {
  const DistributedOperator& op = operators_.forward();
  return multiply_first() && !config_.halo_computed ? op.inner() : op.with_halo();
}

std::int64_t ConvolutionLayer::product_elements() const {
  return multiply_first() ? operators_.forward().with_halo() * padded_columns(config_.out) : 0;
}

std::int64_t ConvolutionLayer::aggregate_elements() const {
  const DistributedOperator& op = operators_.backward();
  if (multiply_first()) return op.inner() * padded_columns(config_.out);
  return config_.input_gradient ? op.with_halo() * padded_columns(config_.in) : 0;
}

std::int64_t ConvolutionLayer::kept_elements() const {
  const std::int64_t columns = (aggregated_ != nullptr ? padded_columns(config_.in) : 0) +
                               (pre_norm_ != nullptr ? padded_columns(config_.out) : 0);
  return operators_.forward().inner() * columns;
}

std::int64_t ConvolutionLayer::gradient_elements() const {
  const DistributedOperator& op = operators_.backward();
  return (multiply_first() ? op.with_halo() : op.inner()) * padded_columns(config_.out);
}

std::int64_t ConvolutionLayer::floats_per_halo_row(Direction direction) const {
  const std::int64_t width = multiply_first() ? config_.out : config_.in;
  if (direction == Direction::kForward) return config_.cache_aggregate ? 0 : width;
  return multiply_first() || config_.input_gradient ? width : 0;
}

void ConvolutionLayer::forward(const RankContext& context, Tensor& product_memory, MatrixView input,
                               MatrixView output) {
  Backend& backend = context.backend;
  Queue& queue = context.queue;
  const DistributedOperator& op = aggregated_by(Direction::kForward);
  const auto ids = [&](RowRange range) {
    return context.inner_ids.subspan(static_cast<std::size_t>(range.begin),
                                     static_cast<std::size_t>(range.size()));
  };
  const MatrixView y = output.rows_in({0, op.inner()});
  const MatrixView z = pre_norm_ != nullptr ? pre_norm_->view() : y;
  const ConstMatrixView weight = parameters_.operand(weight_);
  const bool barrier = tail_.is_barrier(context);
  // The tail is fused into the operation that ends the convolution, follows its rows at once, or,
  // if batch norm needs all rows first, comes when all are there.
  const bool fused = tail_.fuses(context);
  const MatrixView sum = fused ? y : z;
  const auto epilogue = [&](RowRange range) {
    return fused ? tail_.epilogue(context, ids(range)) : Epilogue{};
  };
  const auto finish_rows = [&](RowRange range) {
    if (fused || barrier) return;
    tail_.forward_rows(context, ids(range), z.rows_in(range), y.rows_in(range));
  };
  const auto multiply = [&](ConstMatrixView x, ConstMatrixView by, double beta, MatrixView product,
                            const Epilogue& then) {
    backend.gemm(queue, Transpose::kNo, x, Transpose::kNo, by, beta, product, then);
  };
  const Channel channel{config_.index, Direction::kForward, config_.cache_aggregate};

  tail_.prepare_epilogue(context);
  if (multiply_first()) {
    const MatrixView product = product_memory.reshaped(op.with_halo(), config_.out);
    AggregateStages stages;
    stages.prepare = [&](RowRange range) {
      multiply(input.rows_in(range), weight, 0, product.rows_in(range), {});
      if (root_ >= 0) {
        multiply(input.rows_in(range), parameters_.operand(root_), 0, sum.rows_in(range), {});
      }
      // With the central rows, when messages are on their way.
      const bool central = range.begin == op.central.begin && range.end == op.central.end;
      if (!config_.halo_computed || !central) return;
      for (const RowRange& halo : operators_.computed_halo()->ranges()) {
        multiply(input.rows_in(halo), weight, 0, product.rows_in(halo), {});
      }
    };
    stages.complete = finish_rows;
    stages.beta = root_ < 0 ? 0 : 1;
    stages.epilogue = epilogue;
    aggregate(context, op, channel, product, sum, stages);
  } else {
    const auto multiply_aggregated = [&](RowRange range) {
      const bool root = root_ >= 0;
      multiply(aggregated_->view().rows_in(range), weight, 0, sum.rows_in(range),
               root ? Epilogue{} : epilogue(range));
      if (root) {
        multiply(input.rows_in(range), parameters_.operand(root_), 1, sum.rows_in(range),
                 epilogue(range));
      }
      finish_rows(range);
    };
    if (cached_) {
      const ScopedSpan span(context.trace, "complete central",
                            {context.epoch, config_.index, -1, -1}, "forward");
      multiply_aggregated({0, op.inner()});
    } else {
      aggregate(context, op, channel, input, aggregated_->view().rows_in({0, op.inner()}),
                {.prepare = [](RowRange) {}, .complete = multiply_aggregated});
      if (halo_ != nullptr) fetch_halo_inputs(context, input);
      cached_ = config_.cache_aggregate;
    }
  }
  if (barrier) {
    tail_.forward_statistics(context, z);
    const ScopedSpan span(context.trace, "norm apply", {context.epoch, config_.index, -1, -1},
                          "forward");
    tail_.forward_rows(context, ids({0, op.inner()}), z, y);
  }
  if (halo_ != nullptr) compute_halo(context, output);
}

void ConvolutionLayer::fetch_halo_inputs(const RankContext& context, ConstMatrixView input) {
  const Channel channel{config_.index, Direction::kForward, /*constant=*/true};
  context.exchange.begin(halo_->inputs(), aggregated_->view(), channel, context.epoch)->finish();
  if (root_ < 0) return;
  // The aggregate before has brought them, and without factors: a root weight goes with the mean.
  ATOLL_ASSERT(operators_.forward().message_scale.empty());
  halo_->take(context.backend, context.queue, input, halo_input_->view());
}

void ConvolutionLayer::compute_halo(const RankContext& context, MatrixView output) {
  const ScopedSpan span(context.trace, "recompute", {context.epoch, config_.index, -1, -1},
                        "forward");
  Backend& backend = context.backend;
  const std::int64_t inner = operators_.forward().inner();
  const ConstMatrixView aggregated = aggregated_->view().rows_in({inner, inner + halo_->rows()});
  const MatrixView y = halo_output_->view();
  const bool fused = tail_.fuses(context);
  const MatrixView z = fused ? y : halo_pre_norm_->view();
  const Epilogue then = fused ? tail_.epilogue(context, halo_->ids()) : Epilogue{};
  const bool root = root_ >= 0;
  backend.gemm(context.queue, Transpose::kNo, aggregated, Transpose::kNo,
               parameters_.operand(weight_), 0, z, root ? Epilogue{} : then);
  if (root) {
    backend.gemm(context.queue, Transpose::kNo, halo_input_->view(), Transpose::kNo,
                 parameters_.operand(root_), 1, z, then);
  }
  if (!fused) tail_.forward_rows(context, halo_->ids(), z, y);
  halo_->place(backend, context.queue, y, output);
}

void ConvolutionLayer::backward_without_aggregate(const RankContext& context, MatrixView input,
                                                  ConstMatrixView output, MatrixView dz) {
  const ScopedSpan span(context.trace, "prepare central", {context.epoch, config_.index, -1, -1},
                        "backward");
  const RowRange all{0, dz.rows};
  const ConstMatrixView z = pre_norm_ != nullptr ? ConstMatrixView(pre_norm_->view()) : output;
  tail_.backward_rows(context, all, output, z, dz);
  context.backend.gemm(context.queue, Transpose::kYes, aggregated_->view().rows_in(all),
                       Transpose::kNo, dz, 1, parameters_.gradient(weight_));
  if (root_ >= 0) {
    context.backend.gemm(context.queue, Transpose::kYes, input.rows_in(all), Transpose::kNo, dz, 1,
                         parameters_.gradient(root_));
  }
}

void ConvolutionLayer::backward(const RankContext& context, const BackwardMemory& memory,
                                MatrixView input, ConstMatrixView output) {
  Backend& backend = context.backend;
  Queue& queue = context.queue;
  const DistributedOperator& op = operators_.backward();
  const std::int64_t inner = op.inner();
  const ConstMatrixView y = output.rows_in({0, inner});
  const ConstMatrixView z = pre_norm_ != nullptr ? ConstMatrixView(pre_norm_->view()) : y;
  // The gradient's halo rows exist only where the gradient itself is aggregated.
  const MatrixView dz_all =
      memory.gradient->reshaped(multiply_first() ? op.with_halo() : inner, config_.out);
  const MatrixView dz = dz_all.rows_in({0, inner});
  const ConstMatrixView weight = parameters_.operand(weight_);
  const Channel channel{config_.index, Direction::kBackward};

  if (tail_.is_barrier(context)) tail_.backward_statistics(context, y, z, dz);
  if (!multiply_first() && !config_.input_gradient) {
    backward_without_aggregate(context, input, y, dz);
    return;
  }
  const MatrixView dx =
      config_.input_gradient ? memory.input_gradient->reshaped(inner, config_.in) : MatrixView{};
  // Through the tail, and the root weight's gradient: needs no aggregate, so it covers the wire.
  const auto tail_and_root = [&](RowRange range) {
    tail_.backward_rows(context, range, y, z, dz);
    if (root_ >= 0) {
      backend.gemm(queue, Transpose::kYes, input.rows_in(range), Transpose::kNo, dz.rows_in(range),
                   1, parameters_.gradient(root_));
    }
  };
  const auto root_input_gradient = [&](RowRange range) {
    if (root_ < 0 || !config_.input_gradient) return;
    backend.gemm(queue, Transpose::kNo, dz.rows_in(range), Transpose::kYes,
                 parameters_.operand(root_), 1, dx.rows_in(range));
  };
  if (multiply_first()) {
    // y = S (x W): dW = x^T (S^T dz), dx = (S^T dz) W^T.
    const MatrixView aggregated = memory.aggregate->reshaped(inner, config_.out);
    const auto multiply = [&](RowRange range) {
      backend.gemm(queue, Transpose::kYes, input.rows_in(range), Transpose::kNo,
                   aggregated.rows_in(range), 1, parameters_.gradient(weight_));
      if (!config_.input_gradient) return;
      backend.gemm(queue, Transpose::kNo, aggregated.rows_in(range), Transpose::kYes, weight, 0,
                   dx.rows_in(range));
      root_input_gradient(range);
    };
    aggregate(context, op, channel, dz_all, aggregated,
              {.prepare = tail_and_root, .complete = multiply});
  } else {
    // y = (S x) W: dW = (S x)^T dz, dx = S^T (dz W^T).
    const MatrixView product = memory.aggregate->reshaped(op.with_halo(), config_.in);
    const auto multiply = [&](RowRange range) {
      tail_and_root(range);
      backend.gemm(queue, Transpose::kNo, dz.rows_in(range), Transpose::kYes, weight, 0,
                   product.rows_in(range));
      backend.gemm(queue, Transpose::kYes, aggregated_->view().rows_in(range), Transpose::kNo,
                   dz.rows_in(range), 1, parameters_.gradient(weight_));
    };
    aggregate(context, op, channel, product, dx,
              {.prepare = multiply, .complete = root_input_gradient});
  }
}

}  // namespace atl
