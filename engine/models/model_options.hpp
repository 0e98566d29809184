// The options of a model, each one row of a table: flags, configuration files, fingerprints, plans
// and traces are made from it.
#pragma once

#include "base/option.hpp"
#include "engine/models/model.hpp"

namespace atl {

// What is computed.
const OptionTable<ModelConfig>& model_options();
// How: storage and algebra.
const OptionTable<ModelConfig>& computation_options();

// The model as a trace's metadata has it: sizes, and the options that a simulation depends on,
// which are those that a plan is made for.
Json trace_json(const ModelConfig& model);
// The reverse. Throws Error{kInput} naming `place`, the field, the value found and those allowed.
ModelConfig read_trace_model(const Json& json, const std::filesystem::path& place);

}  // namespace atl
