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

// What follows a convolution: norm or bias, and, unless the layer is the last one, ReLU and
// dropout. A norm's shift serves as the bias of the convolution before it.
Value finish_layer(Builder& builder, Value x, const ModelConfig& config, bool last) {
  if (last) return builder.bias(x);
  x = config.norm == Norm::kBatch   ? builder.batch_norm(x)
      : config.norm == Norm::kLayer ? builder.layer_norm(x)
                                    : builder.bias(x);
  return builder.relu_dropout(x, config.dropout);
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

int layer_count(const ModelConfig& config) { return config.layers; }

Program model_program(const ModelConfig& config, Pass pass) {
  const ModelKind& kind = find_kind(config.kind);
  Builder builder(pass, config.features,
                  {config.order, config.cache_aggregate, config.layer_orders},
                  config.input_dropout);
  Value x = builder.input();
  Value embeddings = x;
  for (int layer = 0; layer < config.layers; ++layer) {
    const bool last = layer + 1 == config.layers;
    builder.begin_layer();
    embeddings = x;
    x = kind.convolution(builder, x, last ? config.outputs : config.hidden);
    x = finish_layer(builder, x, config, last);
    builder.end_layer(x);
  }
  Program program = builder.finish(x, embeddings);
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
