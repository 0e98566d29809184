// The scores of a model as lines of text.
#pragma once

#include <string>

#include "base/json.hpp"

namespace atl {

// Text of result_json() or a summary: a line per metric with its values of the training, validation
// and test nodes, the one that the run is judged by first; and why that one is undefined where it
// is. NaN and null are shown as "-".
std::string scores_text(const Json& result);

}  // namespace atl
