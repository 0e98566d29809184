// The weights of a model as PyTorch Geometric names and shapes them: what `atoll export` writes and
// `train --init` reads.
#pragma once

#include <string>

#include "engine/models/model.hpp"
#include "engine/tensor/safetensors.hpp"

namespace atl {

// The weights of `own`, a state of the network of `model` (see network_state.hpp), as a state_dict
// of the module that python/atoll/pyg_model.py builds: convs, norms and skips by layer, input,
// nodes, head and head_norm. Throws Error{kOption} if PyTorch Geometric has no class for a layer.
SafetensorsFile to_pyg(const SafetensorsFile& own, const ModelConfig& model);

// The weights to start a network of `model` with, as network_state() gives them, from a file of
// them: a model of this program (by its metadata), or a state_dict as to_pyg() writes it. Throws
// Error{kInput} naming `place` and all tensors that are missing, surplus, or of another type or
// shape.
SafetensorsFile initial_weights(const SafetensorsFile& file, const ModelConfig& model,
                                const std::string& place);

}  // namespace atl
