#include "engine/models/model.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "engine/models/convolutions.hpp"
#include "engine/program/differentiate.hpp"
#include "engine/program/fuse.hpp"
#include "engine/program/place_halo.hpp"

namespace atl {

namespace {

// One line per model: its name and its convolution. A program's own follow.
std::vector<ModelKind>& all_kinds() {
  static std::vector<ModelKind> kinds = {
      {"gcn", gcn_convolution},
      {"sage", sage_convolution},
  };
  return kinds;
}

const ModelKind& find_kind(const std::string& name) {
  for (const ModelKind& kind : all_kinds()) {
    if (name == kind.name) return kind;
  }
  fail_option("--model {}: unknown model; allowed are: {}", name, fmt::join(model_kinds(), ", "));
}

// What a layer's convolution gives; functions of a user's own program may give anything.
Value write_convolution(Builder& builder, const ModelKind& kind, Value x, std::int64_t columns) {
  const Value result = kind.convolution(builder, x, columns);
  const std::int64_t given = builder.has_rows(result) ? builder.columns(result) : 0;
  if (given == columns) return result;
  fail_option("--model {}: its convolution gives {}; needed is a value of {} columns", kind.name,
              given == 0 ? std::string("no value with a row per node")
                         : fmt::format("a value of {} columns", given),
              columns);
}

// What follows a convolution: norm or bias, and, unless the layer is the last one, ReLU and
// dropout. A norm's shift serves as the bias of the convolution before it.
Value finish_layer(Builder& builder, Value x, const ModelConfig& config, bool last) {
  if (last) return builder.bias(x);
  x = config.norm == Norm::kBatch   ? builder.batch_norm(x)
      : config.norm == Norm::kLayer ? builder.layer_norm(x)
                                    : builder.bias(x);
  return builder.activate(x, ActivationFunction::kRelu, config.dropout);
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
  for (const ModelKind& kind : all_kinds()) names.push_back(kind.name);
  return names;
}

void add_model_kinds(const std::vector<ModelKind>& kinds) {
  // It is also part of a run folder's name.
  const auto is_word = [](const std::string& name) {
    return !name.empty() && name.size() <= 64 && name.front() != '-' &&
           std::ranges::all_of(
               name, [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_'; });
  };
  for (const ModelKind& kind : kinds) {
    if (!is_word(kind.name)) {
      fail_option(
          "a model of this program is named '{}'; allowed are 1 to 64 letters, digits, '_' and "
          "'-', the first of them no '-'",
          kind.name);
    }
    if (std::ranges::count(all_kinds(), kind.name, &ModelKind::name) > 0) {
      fail_option("a model of this program is named '{}', and so is another; taken are: {}",
                  kind.name, fmt::join(model_kinds(), ", "));
    }
    if (kind.convolution == nullptr) {
      fail_option("model '{}' of this program has no function that writes it", kind.name);
    }
    all_kinds().push_back(kind);
  }
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
    x = write_convolution(builder, kind, x, last ? config.outputs : config.hidden);
    x = finish_layer(builder, x, config, last);
    builder.end_layer(x);
  }
  Program program = builder.finish(x, embeddings);
  if (pass == Pass::kTraining) differentiate(program);
  fuse(program);
  if (config.recomputation.any() && !compute_halo_rows(program)) {
    fail_option(
        "--recompute: only a first layer that keeps its one aggregate can be computed for halo "
        "rows, and only a layer after it needs them; this takes --layers 2 or more, "
        "--input-dropout 0, --cache-aggregate on, an order that aggregates first there and a "
        "--model that makes a row of the features and one aggregate of them alone");
  }
  return program;
}

}  // namespace atl
