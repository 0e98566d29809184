// The description of a model, layer by layer: what options and model files are turned into, and
// what the program is written from.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "base/option.hpp"
#include "kernels/views.hpp"

namespace atl {

enum class Norm { kNone, kLayer, kBatch };
// Norm, activation and dropout follow a convolution, or come before it (pre-activation; He et al.
// 2016, Li et al. 2020).
enum class NormPlace { kAfter, kBefore };
// The term that is added to the result of a convolution.
enum class Skip { kNone, kIdentity, kLinear };
enum class SkipFrom { kPrevious, kFirst };  // the layer's input, or that of the first layer
// The part of the node's own row that a convolution adds: nothing, the row, (1 + e) times the row
// with a trained e that starts at 0, or a product with a weight of its own.
enum class Root { kUsual, kNone, kIdentity, kEpsilon, kLinear };
// How sage aggregates the rows of neighbours.
enum class Aggregator { kMean, kSum, kMax, kSoftmax, kPower };
// Factors of rows around attention (Wang et al. 2021, "Bag of tricks for node classification with
// graph neural networks").
enum class AttentionNorm { kNone, kSymmetric };
// How the head gets the layers' outputs (jumping knowledge; Xu et al. 2018).
enum class Jump { kLast, kSum, kConcatenate, kMax };

const char* to_string(Norm norm);              // "none", "layer" or "batch"
const char* to_string(NormPlace place);        // "after" or "before"
const char* to_string(Skip skip);              // "none", "identity" or "linear"
const char* to_string(SkipFrom from);          // "previous" or "first"
const char* to_string(Root root);              // "usual", "none", "identity", "epsilon" or "linear"
const char* to_string(Aggregator aggregator);  // "mean", "sum", "max", "softmax" or "power"
const char* to_string(AttentionNorm norm);     // "none" or "symmetric"
const char* to_string(Jump jump);              // "last", "sum", "concatenate" or "max"

// Options of every layer.
struct LayerOptions {
  Norm norm = Norm::kNone;
  NormPlace norm_place = NormPlace::kAfter;
  ActivationFunction activation = ActivationFunction::kRelu;
  double dropout = 0.5;
  Skip skip = Skip::kNone;
  SkipFrom skip_from = SkipFrom::kPrevious;
  Root root = Root::kUsual;
  Aggregator aggregator = Aggregator::kMean;  // of sage
  double temperature = 1;                     // of aggregator softmax
  double aggregator_power = 1;                // of aggregator power; not 0
  bool learns_aggregator = false;             // the temperature or the power is trained
  double alpha = 0.1;                         // gcnii, appnp: share of the first row
  double theta = 0.5;  // gcnii: layer l multiplies with the weight by log(theta / l + 1)
  // gat, gatv2, dot: their columns are those of all heads side by side, or the mean of the heads.
  int heads = 1;
  bool averages_heads = false;
  double attention_dropout = 0;  // of coefficients
  bool edge_scores = false;      // gat, gatv2: from features of edges
  AttentionNorm attention_norm = AttentionNorm::kNone;
  // rgcn: the weights of relations are sums of so many matrices; 0: each is one of its own.
  int bases = 0;
};
// Which convolutions read an option that not all of them do, their own rows say
// (ConvolutionKind::reads); help texts begin with their names.
const OptionTable<LayerOptions>& layer_options();

struct LayerDescription : LayerOptions {
  std::string convolution = "gcn";  // see convolution_names()
  std::int64_t columns = 0;         // of its output; 0: as many as its input has
};

struct ModelDescription {
  struct InputLayer {
    std::int64_t columns = 0;
    ActivationFunction activation = ActivationFunction::kNone;
    double dropout = 0;
    bool typed = false;  // with a W and a b for each type of nodes
  };
  std::optional<InputLayer> input;  // x W + b before the first layer
  std::vector<LayerDescription> layers;
  Jump jump = Jump::kLast;
  bool has_head = false;  // x W + b behind the last layer, which gives the logits then
};

// Limits for all layers of all kinds.
inline constexpr int kMostLayers = 200;
inline constexpr int kMostHeads = 1024;
inline constexpr int kMostBases = 1024;

// A model file (docs/models.md) as JSON, or, from TOML, as ModelConfig::description holds it.
// Layers that give the logits have 0 columns. Both throw Error{kOption} naming the file, the layer,
// the key, the value found and those allowed.
ModelDescription parse_description(const Json& file, const std::string& place);
std::string read_model_file(const std::filesystem::path& path);
// A description in the words of a model file, every option of each layer; "input" is null if there
// is none. Layers that have 0 columns there have them here, too.
Json description_json(const ModelDescription& model);

}  // namespace atl
