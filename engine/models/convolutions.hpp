// The convolutions that layers are made of: what a row takes from its neighbours' rows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/models/description.hpp"
#include "engine/program/builder.hpp"

namespace atl {

// The arguments that a convolution is made from.
struct ConvolutionInput {
  Value x = kNoValue;  // what the layer gets
  // The input of the first layer of a stretch of layers with this convolution, before dropout;
  // only for those that read it (ConvolutionKind::reads_first).
  Value first = kNoValue;
  int number = 1;              // of the layer in that stretch
  std::int64_t columns = 0;    // of the result
  std::int64_t relations = 0;  // types of edges that the dataset has
  std::int64_t edge_features = 0;
  LayerOptions options = {};
};

// One tensor, or a norm with several, of a layer in both programs.
struct PygTensor {
  // Weights are transposed in PyG, but for those that it multiplies with as they are and for
  // vectors of heads, [heads, columns], which it has as [1, heads, columns]; stacked matrices have
  // a dimension of their own.
  enum class Form : std::uint8_t { kTransposed, kAsItIs, kPerHead, kStacked };

  std::string_view own;  // behind "layers.N."
  std::string_view pyg;  // behind "convs.N."
  Form form = Form::kTransposed;
};

// PyTorch Geometric's (PyG's) class for a convolution. python/atoll/pyg_model.py constructs and
// calls its class.
struct PygClass {
  std::vector<Root> roots = {};  // that it can do; kUsual: what the convolution usually has
  std::vector<PygTensor> tensors = {};
  bool has_epsilon = false;  // as a tensor, also where it isn't trained
};

struct ConvolutionKind {
  std::string name;
  // Returns a value of input.columns columns, without bias.
  Value (*make)(Builder& builder, const ConvolutionInput& input) = nullptr;
  bool keeps_columns = false;  // the result has as many columns as x
  bool has_bias = true;        // unless a norm follows
  bool has_weight = true;      // without one there is no activation either, unless it is asked for
  bool reads_first = false;
  // Names of the options that it reads, without those of every layer (norm, activation, dropout,
  // skip); with --model, others that some convolution names are refused. Not said: it may read all.
  std::optional<std::vector<std::string>> reads = {};
  // Options of every layer that its model has not.
  std::vector<std::string> lacks = {};
  std::optional<PygClass> pyg = {};
};

// All of them, in the order of help texts: those below and those that were added.
const std::vector<ConvolutionKind>& convolution_kinds();
// Adds those of a program's own, which are models, too. For its start: flags, files of options and
// checks are made from the names once. Throws Error{kOption} for a name that is taken, that is no
// word of a command line or has more than 64 characters, if there is no function, or if it reads
// what is no option of layers.
void add_convolutions(const std::vector<ConvolutionKind>& kinds);
std::vector<std::string> convolution_names();
// Throws Error{kOption} for an unknown name.
const ConvolutionKind& convolution_named(const std::string& name);

// PyG's class for layer number `index`. Throws Error{kOption} naming the layer and what there is
// if it has no class for it.
const PygClass& pyg_class(const LayerDescription& layer, std::size_t index);

// A norm's shift serves as the bias of what comes before it. prefix: of the parameters' names.
Value norm_or_bias(Builder& builder, Value x, Norm norm, const std::string& prefix = "");

// Two that tests and functions of a user's own build on; the others are rows of
// convolution_kinds(), with their formulas where they are written.
// Kipf & Welling 2017, eq. 2: D^-1/2 (A + I) D^-1/2 x W.
Value gcn_convolution(Builder& builder, const ConvolutionInput& input);
// GraphSAGE (Hamilton et al. 2017, algorithm 1): aggregate_j(x_j) W + x R, the concatenation of the
// paper written as two weights. The aggregator: options.aggregator.
Value sage_convolution(Builder& builder, const ConvolutionInput& input);

}  // namespace atl
