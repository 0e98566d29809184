// Convolutions as classes of PyTorch Geometric (PyG), a row each: how they are constructed and
// called, and what their tensors are called there.
#pragma once

#include <string_view>
#include <vector>

#include "engine/models/description.hpp"

namespace atl {

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

// Text of these is Python, in which names in braces are replaced: {in} and {out} columns, {bias},
// {root} (a weight of its own for the node's row), {alpha}, {theta}, {number} (of the layer in its
// run), {epsilon} and {trains_epsilon} of GIN with {hidden_bias}, {hidden_norm} and {activation}
// inside its MLP, {aggregator} of SAGE with what it needs to know, {edge_features} of GINE,
// {relations} and {bases} of R-GCN, {heads}, {head_out} (columns of each), {concat},
// {attention_dropout}, {self} and {edge_dim} of attention.
struct PygConvolution {
  std::string_view convolution;      // see convolution_names()
  std::string_view import;           // from torch_geometric.nn; "": nothing
  std::string_view definition = "";  // of a class of its own; "": PyG's serves
  std::string_view constructor;
  // {conv} of {x}; `start` is what the first layer of a run gets; {edge_attr} is one more argument
  // where scores read features of edges.
  std::string_view call = "{conv}({x}, edge_index, edge_weight)";
  std::vector<Root> roots = {};  // that it can do; kUsual: what the convolution usually has
  std::vector<PygTensor> tensors = {};
  bool has_epsilon = false;      // as a tensor, also where it isn't trained
  bool refuses_weights = false;  // of edges, which PyG's class would leave out
};

// One row per convolution that PyG has a class for.
const std::vector<PygConvolution>& pyg_convolutions();
// That of layer number `index`. Throws Error{kOption} naming the layer and what there is if PyG has
// no class for it.
const PygConvolution& pyg_convolution(const LayerDescription& layer, std::size_t index);

}  // namespace atl
