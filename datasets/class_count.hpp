// How many classes a set of labels has.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace atl {

// `stated`, or the largest label + 1 (0 if every label is -1). A model has an output per class, so
// that one wrong label could cost gigabytes: where nobody has stated the number, labels must be
// below 1,000 or below the number of labelled nodes. Throws Error{kInput} naming `place`, label,
// node and what is allowed; `option` is how a user states the number.
std::int64_t class_count(std::span<const std::int32_t> labels, std::optional<std::int64_t> stated,
                         const std::string& place, const char* option);

}  // namespace atl
