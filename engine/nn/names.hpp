// Names of a model's parts in options, files and logs.
#pragma once

#include <optional>
#include <string>

#include "engine/nn/layer.hpp"

namespace atl {

const char* to_string(Norm norm);            // "none", "layer" or "batch"
const char* to_string(MultiplyOrder order);  // "multiply-first" or "aggregate-first"
// The reverse; empty for other names.
std::optional<Norm> norm_named(const std::string& name);
std::optional<MultiplyOrder> multiply_order_named(const std::string& name);

}  // namespace atl
