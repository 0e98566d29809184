#include "engine/models/model.hpp"

#include <fmt/ranges.h>

#include "engine/models/convolutions.hpp"
#include "engine/program/differentiate.hpp"
#include "engine/program/fuse.hpp"
#include "engine/program/place_halo.hpp"

namespace atl {

namespace {

// One line per model: its name and its convolution.
struct ModelKind {
  const char* name;
  Value (*convolution)(Builder& builder, Value x, std::int64_t columns);
};
constexpr ModelKind kModelKinds[] = {
    {"gcn", gcn_convolution},
    {"sage", sage_convolution},
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

// What follows a convolution: norm or bias, and, unless the layer is the last one, ReLU and
// dropout. A norm's shift serves as the bias of the convolution before it.
Value finish_layer(Builder& builder, Value x, const LayerConfig& layer, double dropout) {
  x = layer.norm == Norm::kBatch   ? builder.batch_norm(x)
      : layer.norm == Norm::kLayer ? builder.layer_norm(x)
                                   : builder.bias(x);
  return layer.relu ? builder.relu_dropout(x, dropout) : x;
}

}  // namespace

ModelConfig ModelConfig::sized(std::int64_t feature_columns, std::int64_t logits, int ranks) const {
  ModelConfig result = *this;
  result.features = feature_columns;
  result.outputs = logits;
  if (recompute_all) result.recomputation = Recomputation::of_all_pairs(ranks);
  return result;
}

std::vector<std::string> model_kinds() {
  std::vector<std::string> names;
  for (const ModelKind& kind : kModelKinds) names.emplace_back(kind.name);
  return names;
}

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
  layer.norm = last ? Norm::kNone : config.norm;
  layer.relu = !last;
  return layer;
}

Program model_program(const ModelConfig& config, Pass pass) {
  const ModelKind& kind = find_kind(config.kind);
  std::vector<LayerConfig> layers;
  std::vector<LayerOrder> orders;
  for (int index = 0; index < config.layers; ++index) {
    layers.push_back(layer_config(config, index));
    orders.push_back({layers.back().order, layers.back().cache_aggregate});
  }
  Builder builder(pass, config.features, std::move(orders), config.input_dropout);
  Value x = builder.input();
  for (const LayerConfig& layer : layers) {
    builder.begin_layer(layer.index);
    x = finish_layer(builder, kind.convolution(builder, x, layer.out), layer, config.dropout);
    builder.end_layer(x);
  }
  Program program = builder.finish();
  if (pass == Pass::kTraining) differentiate(program);
  fuse(program);
  if (config.recomputation.any() && !compute_halo_rows(program)) {
    fail_option(
        "--recompute: only a first layer that keeps its aggregate can be computed for halo rows, "
        "and only a layer after it needs them; this takes --layers 2 or more, --input-dropout 0, "
        "--cache-aggregate on and an order that aggregates first there");
  }
  return program;
}

}  // namespace atl
