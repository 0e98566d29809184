// Finds the valid name closest to a misspelt one, for error messages.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace atl {

// Number of insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b`
// (optimal string alignment distance). O(|a| |b|) time.
int edit_distance(std::string_view a, std::string_view b);

// " (did you mean 'X'?)" for the closest of `names` when it is close enough to be a slip, else "".
// Letters may be large or small.
std::string did_you_mean(std::string_view wrong, std::span<const std::string> names);

}  // namespace atl
