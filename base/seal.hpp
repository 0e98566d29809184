// The seal of a JSON file: a checksum over its own other fields, so that a change of any of them is
// noticed.
#pragma once

#include <filesystem>

#include "base/json.hpp"

namespace atl {

// Sets the field "seal" of `object`; to be called when everything else is in it.
void add_seal(Json& object);

// Throws Error{kInput} naming `file` and both checksums unless the seal of `object` is there and
// right.
void check_seal(const Json& object, const std::filesystem::path& file);

}  // namespace atl
