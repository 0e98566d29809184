// The options of a model, each one row of a table: flags, configuration files, fingerprints, plans
// and traces are made from it.
#pragma once

#include "base/option.hpp"
#include "engine/models/convolutions.hpp"
#include "engine/models/model.hpp"

namespace atl {

// Options that say what is computed.
const OptionTable<ModelConfig>& model_options();
// Throws Error{kOption} for options that contradict each other.
void check_model_options(const ModelConfig& model);
// Whether only other convolutions read an option of layers. Convolutions of a user's own program
// may read what they like, unless they say what that is.
bool is_for_others(const ConvolutionKind& kind, const std::string& option);
// How: storage and algebra.
const OptionTable<ModelConfig>& computation_options();

// Whether a plan that is made for this model says what the option is.
template <typename Config>
bool is_made_for(const Option<Config>& option, const Config& config) {
  return option.plan == PlanRole::kMadeFor && option.recorded(config);
}

// The model as a trace's metadata has it: sizes, and the options that a simulation depends on,
// which are those that a plan is made for.
Json trace_json(const ModelConfig& model);
// The reverse. Throws Error{kInput} naming `place`, the field, the value found and those allowed.
ModelConfig read_trace_model(const Json& json, const std::filesystem::path& place);

}  // namespace atl
