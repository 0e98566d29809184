// Convolutions that PyTorch Geometric (PyG) has a class for, a row each: what the class can do and
// what its tensors are called. python/atoll/pyg_model.py constructs and calls the classes.
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

struct PygConvolution {
  std::string_view convolution;  // see convolution_names()
  std::vector<Root> roots = {};  // that it can do; kUsual: what the convolution usually has
  std::vector<PygTensor> tensors = {};
  bool has_epsilon = false;  // as a tensor, also where it isn't trained
};

// One row per convolution that PyG has a class for.
const std::vector<PygConvolution>& pyg_convolutions();
// That of layer number `index`. Throws Error{kOption} naming the layer and what there is if PyG has
// no class for it.
const PygConvolution& pyg_convolution(const LayerDescription& layer, std::size_t index);

}  // namespace atl
