// The Python file that reads an exported model: its layers as classes of PyTorch Geometric.
#pragma once

#include <string>

#include "engine/models/model.hpp"

namespace atl {

// `model`: with features and outputs. Throws Error{kOption} if PyG has no class for its layers.
std::string pyg_module(const ModelConfig& model);

}  // namespace atl
