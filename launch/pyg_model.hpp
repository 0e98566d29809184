// Files that `atoll export` writes for PyTorch Geometric beside the weights: a description of the
// model, and python/atoll/pyg_model.py, which builds the modules from it.
#pragma once

#include <cstddef>
#include <span>

#include "base/json.hpp"
#include "engine/models/model.hpp"

namespace atl {

// `model`: with features and outputs. What its options and its program say, so that whoever reads
// it knows no defaults: sizes, and input, head and layers in the words of a model file.
Json pyg_description(const ModelConfig& model);

// The Python file as it stands: CMake writes the source from it.
std::span<const std::byte> pyg_model_file();

}  // namespace atl
