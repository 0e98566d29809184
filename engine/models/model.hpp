// The models that users choose by name, by options or by a file, each written as a program.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/feature_source.hpp"
#include "engine/models/description.hpp"
#include "engine/program/builder.hpp"
#include "engine/program/drop_values.hpp"
#include "engine/program/offload.hpp"
#include "engine/program/shard_columns.hpp"
#include "partition/message_cover.hpp"

namespace atl {

// auto: what the model has where it was published.
enum class InputLayerChoice { kAuto, kNone, kLinear, kActivated, kTyped };
enum class HeadChoice { kAuto, kNone, kLinear };
const char* to_string(InputLayerChoice choice);  // "auto", "none", "linear", "activated" or "typed"
const char* to_string(HeadChoice choice);        // "auto", "none" or "linear"

// Whether values lie in the memory of a device's host, or in a file, while they are not needed.
// auto: where --memory asks for less and it costs less time than computing them again.
enum class OffloadChoice { kAuto, kOn, kOff };

// The score of a pair of nodes whose embeddings a model gives: their inner product, or an MLP of
// their product element by element.
enum class Decoder { kDot, kMlp };
const char* to_string(Decoder decoder);  // "dot" or "mlp"

// The sizes that a model has from a dataset.
struct DataSizes {
  std::int64_t features = 0;       // input columns
  std::int64_t outputs = 0;        // logits per node
  std::int64_t relations = 0;      // types of edges
  std::int64_t edge_features = 0;  // columns
  std::int64_t node_types = 0;
  // How many of the `features` columns nodes of each type have; behind them are 0. Empty: all.
  std::vector<std::int64_t> features_by_type = {};
  std::int64_t nodes = 0;  // of the graph
};

// The options of a model; those of layers hold for all that do not give the logits.
struct ModelConfig : LayerOptions, DataSizes {
  std::string kind = "gcn";  // see model_kinds()
  int layers = 3;
  std::int64_t hidden = 256;
  std::string node_features;  // "trained:D": a row of parameters per node; empty: the dataset's
  double input_dropout = 0;
  InputLayerChoice input_layer = InputLayerChoice::kAuto;
  HeadChoice head = HeadChoice::kAuto;
  Jump jump = Jump::kLast;
  int hops = 10;            // of appnp
  int output_heads = 1;     // of a layer of attention that gives the logits: their mean
  std::string description;  // a model file as JSON, instead of all above but input_dropout
  // The score of pairs of nodes, for links. Layers of the MLP, the last of which gives the score;
  // the others have as many columns as embeddings, ReLU, and dropout.
  Decoder decoder = Decoder::kDot;
  int decoder_layers = 3;
  double decoder_dropout = 0;
  OrderChoice order = OrderChoice::kAuto;
  bool cache_aggregate = true;        // keep S x of the first layer where its input is constant
  std::vector<LayerAlgebra> algebra;  // by layer, instead of the two above; empty: none
  bool recompute_all = false;         // by every pair of ranks: see sized()
  Recomputation recomputation;        // of halo rows of the first layer's output
  MessageForm messages = MessageForm::kAuto;
  DType dtype = DType::kF32;  // storage of activations and messages: f32 or bf16
  std::string memory;         // what a rank may take, see parse_bytes(); empty: all
  OffloadChoice offload = OffloadChoice::kAuto;
  std::string offload_folder;     // where values of a CPU may lie in a file; empty: nowhere
  std::int64_t paged_budget = 0;  // bytes of values in memory then; 0: all
  Dropping dropping;              // of values in training
  Offloading offloading;          // of those that are not dropped
  ColumnShare column_share;       // of this rank, where several hold a part

  // The model for a dataset, on so many ranks. Throws Error{kOption} if it trains rows of nodes
  // that have features.
  ModelConfig sized(const DataSizes& sizes, int ranks) const;
  bool trains_nodes() const { return !node_features.empty(); }
};

std::vector<std::string> model_kinds();  // "gcn", "sage", ...
// The name of the convolution that models of a kind are made of.
std::string convolution_of(const std::string& kind);
// As reports name it: its kind, or "model file"; as names of folders have it: "file".
std::string model_name(const ModelConfig& config);
std::string model_word(const ModelConfig& config);

// The model of these options, layer by layer. Throws Error{kOption} for an unknown kind, or for
// options that contradict each other.
ModelDescription describe(const ModelConfig& config);
// The number of layers of model_program().
int layer_count(const ModelConfig& config);

// The model as a program: forward alone for kEvaluation, with loss, gradients and step for
// kTraining; fused. Throws Error{kOption} as describe() does, if columns of values that are added
// differ, or if rows can't be recomputed.
Program model_program(const ModelConfig& config, Pass pass);

// True if its messages are those of a cover. program: one of this model. Throws Error{kOption}
// where it asks for that and can't have it.
bool covers_messages(const ModelConfig& config, const Program& program);

// The decoder as a program of pairs, which a loss or a ranking of pairs runs
// (Network::run_pairs). Its parameters have the numbers that they have in the model's programs.
Program pair_program(const ModelConfig& config, Pass pass);

// True if any of its layers reads it: features of edges, or types that it tells apart.
bool reads(const ModelConfig& config, GraphData data);

// Choices that are allowed but rarely wanted, a sentence each: heads of attention with fewer than
// four columns.
std::vector<std::string> doubts_about(const ModelConfig& config);

// True if halo rows of the first layer's output can be computed, in the orders of `config`.
bool can_recompute(const ModelConfig& config);

const char* to_string(MultiplyOrder order);  // "multiply-first" or "aggregate-first"
// The reverse; empty for other names.
std::optional<MultiplyOrder> multiply_order_named(const std::string& name);

}  // namespace atl
