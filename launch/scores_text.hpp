// The scores of a model as lines of text.
#pragma once

#include <string>

#include "base/json.hpp"

namespace atl {

// Of what result_json() or a summary says: a line per metric with its values of the training,
// validation and test nodes, the one that the run is judged by first; and why that one is undefined
// where it is. NaN and null are shown as "-".
std::string scores_text(const Json& result);

}  // namespace atl
