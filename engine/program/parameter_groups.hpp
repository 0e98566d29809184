// Parameters with a learning rate or weight decay of their own (--parameter-groups).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/program/parameters.hpp"

namespace atl {

struct ParameterGroup {
  std::string pattern;  // of names, with * for any text and ? for any character
  std::optional<double> learning_rate;
  std::optional<double> weight_decay;
};

// The fault of "PATTERN: lr=0.5, weight-decay=5e-4; PATTERN: ..."; empty: nothing.
std::string parameter_groups_problem(const std::string& text);

// The groups of a text without problem.
std::vector<ParameterGroup> parameter_groups(const std::string& text);

// By parameter: the first group whose pattern matches its name, or -1. Throws Error{kOption} naming
// the parameters if a group gets none.
std::vector<int> groups_of(const std::vector<Parameter>& parameters,
                           const std::vector<ParameterGroup>& groups);

}  // namespace atl
