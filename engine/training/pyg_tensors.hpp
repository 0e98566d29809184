// The weights of a model as PyTorch Geometric (PyG) names and shapes them: what `atoll export`
// writes and `train --init` reads.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/models/model.hpp"
#include "engine/tensor/safetensors.hpp"

namespace atl {

// How a tensor lies in PyTorch.
enum class PygShape : std::uint8_t {
  kTransposed,  // a matrix [in, out] as [out, in]
  kRow,         // [1, columns] as [columns]
};

// One tensor of a layer in both programs.
struct PygTensor {
  std::string_view own;  // behind "layers.N."
  std::string_view pyg;  // behind "convs.N."
  PygShape shape = PygShape::kTransposed;
};

// A convolution of Atoll as a class of PyG.
struct PygConvolution {
  std::string_view kind;         // see ModelConfig
  std::string_view import;       // from torch_geometric.nn
  std::string_view definition;   // of a class of its own, in Python; "": PyG's serves
  std::string_view constructor;  // with {in}, {out} and {bias} to be replaced
  std::vector<PygTensor> tensors;
};

// One row per model that PyG has classes for.
const std::vector<PygConvolution>& pyg_convolutions();
// Throws Error{kOption} naming the models that there are if PyG has no class for this one.
const PygConvolution& pyg_convolution(const std::string& kind);

// One layer of a model, for the constructors of its modules.
struct PygLayer {
  std::int64_t in = 0;
  std::int64_t out = 0;
  bool has_bias = false;
  Norm norm = Norm::kNone;
};
// `model`: with features and outputs.
std::vector<PygLayer> pyg_layers(const ModelConfig& model);

// The weights of `own`, a state of the network of `model` (see network_state.hpp), as a state_dict.
SafetensorsFile to_pyg(const SafetensorsFile& own, const ModelConfig& model);

// The weights to start a network of `model` with, as network_state() gives them, from a file of
// them: a model of this program (by its metadata), or a state_dict as to_pyg() writes it. Throws
// Error{kInput} naming `place` and all tensors that are missing, surplus, or of another type or
// shape.
SafetensorsFile initial_weights(const SafetensorsFile& file, const ModelConfig& model,
                                const std::string& place);

}  // namespace atl
