// The score of the validation nodes that ends a run before its last epoch: --target.
#pragma once

#include <optional>
#include <string>

namespace atl {

struct TargetScore {
  std::optional<double> score;  // in the units of --metric; none: the run has all its epochs

  bool operator==(const TargetScore&) const = default;
};
std::string to_string(const TargetScore& target);  // "none", "0.75"
// The reverse; throws Error{kOption} for other texts.
TargetScore parse_target(const std::string& text);

}  // namespace atl
