#include "engine/nn/model.hpp"

#include <algorithm>

namespace atl {

namespace {

// One line per layer type: its name, the normalisation of its aggregate, whether a node's own row
// has a weight of its own, its maker.
struct ModelKind {
  const char* name;
  Normalisation normalisation;
  bool root_weight;
  std::unique_ptr<Layer> (*make)(const LayerConfig&, const GraphOperators&, ParameterStore&,
                                 TensorArena&);
};
constexpr ModelKind kModelKinds[] = {
    {"gcn", Normalisation::kSymmetric, false, make_gcn_layer},
    {"sage", Normalisation::kMean, true, make_sage_layer},
};

const ModelKind& find_kind(const std::string& name) {
  for (const ModelKind& kind : kModelKinds) {
    if (name == kind.name) return kind;
  }
  fail_option("--model {}: unknown model; allowed are: {}", name, fmt::join(model_kinds(), ", "));
}

// The order that moves fewer columns across the cut in one epoch, backward included; at a tie the
// one that keeps less memory.
MultiplyOrder choose_order(OrderChoice choice, const LayerConfig& config, bool cache) {
  if (choice == OrderChoice::kMultiplyFirst) return MultiplyOrder::kMultiplyFirst;
  if (choice == OrderChoice::kAggregateFirst) return MultiplyOrder::kAggregateFirst;
  const std::int64_t multiply_first = 2 * config.out;
  const std::int64_t aggregate_first =
      (config.constant_input && cache ? 0 : config.in) + (config.input_gradient ? config.in : 0);
  return aggregate_first < multiply_first ? MultiplyOrder::kAggregateFirst
                                          : MultiplyOrder::kMultiplyFirst;
}

}  // namespace

std::vector<std::string> model_kinds() {
  std::vector<std::string> names;
  for (const ModelKind& kind : kModelKinds) names.emplace_back(kind.name);
  return names;
}

bool has_root_weight(const std::string& kind) { return find_kind(kind).root_weight; }

LayerConfig layer_config(const ModelConfig& config, int index) {
  const bool last = index + 1 == config.layers;
  LayerConfig layer;
  layer.index = index;
  layer.in = index == 0 ? config.features : config.hidden;
  layer.out = last ? config.outputs : config.hidden;
  layer.constant_input = index == 0 && config.input_dropout == 0;
  layer.input_gradient = index > 0;
  bool cache = config.cache_aggregate;
  if (config.layer_orders.empty()) {
    layer.order = choose_order(config.order, layer, cache);
  } else {
    const LayerOrder& planned = config.layer_orders.at(static_cast<std::size_t>(index));
    layer.order = planned.order;
    cache = planned.cache_aggregate;
  }
  layer.cache_aggregate =
      cache && layer.constant_input && layer.order == MultiplyOrder::kAggregateFirst;
  const bool recomputes = config.recomputation.any();
  layer.computes_halo = recomputes && index == 0;
  layer.halo_computed = recomputes && index == 1;
  layer.tail = {index, layer.out, last ? Norm::kNone : config.norm, !last,
                last ? 0.0 : config.dropout};
  return layer;
}

Model::Model(const ModelConfig& config, Backend& backend, Queue& queue, const LocalGraphView& graph,
             ConstMatrixView features)
    : config_(config),
      backend_(backend),
      queue_(queue),
      features_(features),
      operators_(backend, queue, graph, find_kind(config.kind).normalisation, config.recomputation),
      arena_(std::make_shared<TensorArena>(config.dtype)),
      // Libraries of devices are slow where rows start anywhere; a CPU arranges operands anew.
      parameters_(config.dtype, /*pads_operands=*/!backend.host_accessible()) {
  if (config.recomputation.any() &&
      (config.layers < 2 || !layer_config(config, 0).cache_aggregate)) {
    fail_option(
        "--recompute: only a first layer that keeps its aggregate can be computed for halo rows, "
        "and only a layer after it needs them; this takes --layers 2 or more, --input-dropout 0, "
        "--cache-aggregate on and an order that aggregates first there");
  }
  product_ = &arena_->declare(1, 0);
  for (int index = 0; index < config.layers; ++index) {
    const LayerConfig layer = layer_config(config, index);
    layers_.push_back(find_kind(config.kind).make(layer, operators_, parameters_, *arena_));
    product_->reserve(layers_.back()->product_elements());
  }
  const std::int64_t inner = operators_.forward().inner();
  if (config.input_dropout > 0 || layers_[0]->input_rows() > inner) {
    input_ = &arena_->declare(layers_[0]->input_rows(), config.features);
  }
  for (int index = 0; index < config.layers; ++index) {
    const bool last = index + 1 == config.layers;
    const std::int64_t rows = last ? inner : layers_[index + 1]->input_rows();
    outputs_.push_back(&arena_->declare(rows, layers_[index]->config().out));
  }
  plan_backward();
}

void Model::plan_backward() {
  Tensor* const logits_gradient = &arena_->declare(1, 0);
  logits_gradient->reserve(layers_.back()->gradient_elements());
  Tensor* const aggregate = &arena_->declare(1, 0);
  Tensor* spare = nullptr;
  backward_.resize(layers_.size());
  backward_.back().gradient = logits_gradient;
  for (int index = config_.layers - 1; index >= 0; --index) {
    Layer& layer = *layers_[index];
    BackwardMemory& memory = backward_[index];
    // The output was read by the next layer or the loss and has been a mask to this one's tail, all
    // before the aggregate is written. Not so where rows of dz W^T are written beside rows that
    // wait for the tail.
    const bool in_output = layer.config().order == MultiplyOrder::kMultiplyFirst;
    memory.aggregate = in_output ? outputs_[index] : aggregate;
    memory.aggregate->reserve(layer.aggregate_elements());
    if (index == 0) break;
    memory.input_gradient = layer.tail_input();
    if (memory.input_gradient == nullptr) {
      // The product of a forward pass is free until the next one, for one gradient at a time.
      if (memory.gradient == product_ && spare == nullptr) spare = &arena_->declare(1, 0);
      memory.input_gradient = memory.gradient == product_ ? spare : product_;
    }
    memory.input_gradient->reserve(layers_[index - 1]->gradient_elements());
    backward_[index - 1].gradient = memory.input_gradient;
  }
}

std::int64_t Model::activation_bytes() const {
  std::int64_t elements = 0;
  for (const auto& layer : layers_) {
    elements +=
        layer->kept_elements() + operators_.forward().inner() * padded_columns(layer->config().out);
  }
  return elements * bytes_of(config_.dtype);
}

void Model::allocate(std::uint64_t seed) {
  arena_->allocate(backend_);
  parameters_.allocate(backend_, queue_, seed);
  for (const auto& layer : layers_) layer->tail().allocate(backend_, queue_);
}

MatrixView Model::layer_input(int index) {
  if (index > 0) return outputs_[index - 1]->view();
  if (input_ != nullptr) return input_->view();
  // Only its inner rows are read: the layer multiplies first or has its aggregate already, so
  // nothing is received into it.
  return {const_cast<void*>(features_.data), features_.rows, features_.cols, features_.stride,
          features_.dtype};
}

ConstMatrixView Model::forward(const RankContext& context) {
  const std::int64_t inner = operators_.forward().inner();
  const bool drop_input = config_.input_dropout > 0;
  if (input_ != nullptr && (drop_input || !input_holds_features_)) {
    const ScopedSpan span(context.trace, "input dropout", {context.epoch, 0, -1, -1}, "forward");
    Epilogue epilogue;
    if (drop_input && context.training) {
      epilogue.dropout.key = {context.seed, RandomStream::kInputDropout, 0,
                              static_cast<std::uint32_t>(context.epoch)};
      epilogue.dropout.rate = dropout_threshold(config_.input_dropout);
      epilogue.dropout.row_ids = context.inner_ids;
      epilogue.dropout.state = context.state;
    }
    backend_.apply_epilogue(queue_, features_, epilogue, input_->view().rows_in({0, inner}));
    input_holds_features_ = true;
  }
  for (int index = 0; index < config_.layers; ++index) {
    layers_[index]->forward(context, *product_, layer_input(index), outputs_[index]->view());
  }
  // The copy of the features had room for halo rows; with their aggregate kept, nobody needs it.
  if (input_ != nullptr && !drop_input && layers_[0]->holds_aggregate()) {
    input_->release();
    input_ = nullptr;
  }
  return outputs_.back()->view();
}

MatrixView Model::logits_gradient() {
  return backward_.back().gradient->reshaped(operators_.forward().inner(), config_.outputs);
}

void Model::backward(const RankContext& context) {
  backend_.fill_zero(queue_, parameters_.gradients());
  for (int index = config_.layers - 1; index >= 0; --index) {
    layers_[index]->backward(context, backward_[index], layer_input(index),
                             outputs_[index]->view());
  }
}

ConstMatrixView Model::activations(int layer) {
  return outputs_[layer]->view().rows_in({0, operators_.forward().inner()});
}

std::vector<LayerAlgebra> Model::algebra() const {
  std::vector<LayerAlgebra> result;
  for (const auto& layer : layers_) {
    result.push_back({layer->config().order, layer->config().cache_aggregate,
                      layer->floats_per_halo_row(Direction::kForward),
                      layer->floats_per_halo_row(Direction::kBackward),
                      layer->aggregated_by(Direction::kForward).plan.sent_rows(),
                      layer->aggregated_by(Direction::kBackward).plan.sent_rows()});
  }
  return result;
}

std::int64_t Model::halo_bytes_per_epoch() const {
  std::int64_t elements = 0;
  for (const LayerAlgebra& layer : algebra()) elements += layer.sent_elements();
  return elements * bytes_of(config_.dtype);
}

}  // namespace atl
