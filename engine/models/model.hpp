// The models that users choose by name, each written as a program.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/program/builder.hpp"

namespace atl {

enum class Norm { kNone, kLayer, kBatch };

struct ModelConfig {
  std::string kind = "gcn";  // see model_kinds()
  int layers = 3;
  std::int64_t hidden = 256;
  std::int64_t features = 0;  // input columns
  std::int64_t outputs = 0;   // logits per node
  double dropout = 0.5;
  double input_dropout = 0;
  Norm norm = Norm::kNone;
  OrderChoice order = OrderChoice::kAuto;
  bool cache_aggregate = true;           // keep S x of the first layer where its input is constant
  std::vector<LayerOrder> layer_orders;  // by layer, instead of the two above; empty: none
  bool recompute_all = false;            // by every pair of ranks: see sized()
  Recomputation recomputation;           // of halo rows of the first layer's output
  DType dtype = DType::kF32;             // storage of activations and messages: f32 or bf16

  // The model for a dataset, on so many ranks.
  ModelConfig sized(std::int64_t feature_columns, std::int64_t logits, int ranks) const;
};

// A model that --model can name.
struct ModelKind {
  std::string name;
  // Writes a layer's convolution, see convolutions.hpp.
  Value (*convolution)(Builder& builder, Value x, std::int64_t columns) = nullptr;
};

std::vector<std::string> model_kinds();  // "gcn", "sage" and those that were added
// Adds models of a program's own. For its start: flags, files of options and checks are made from
// model_kinds() once. Throws Error{kOption} for a name that is taken, that is no word of a command
// line or has more than 64 characters, or if there is no function.
void add_model_kinds(const std::vector<ModelKind>& kinds);

// The model as a program: forward alone for kEvaluation, with loss, gradients and step for
// kTraining; fused. Throws Error{kOption} for an unknown kind, or if rows can't be recomputed.
Program model_program(const ModelConfig& config, Pass pass);

// Of what model_program() gives.
int layer_count(const ModelConfig& config);

// Names of a model's parts in options, files and logs.
const char* to_string(Norm norm);            // "none", "layer" or "batch"
const char* to_string(MultiplyOrder order);  // "multiply-first" or "aggregate-first"
// The reverse; empty for other names.
std::optional<MultiplyOrder> multiply_order_named(const std::string& name);

}  // namespace atl
