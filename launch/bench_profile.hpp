// How `atoll bench --profile` shows where the time goes and what the machine could do.
#pragma once

#include "base/json.hpp"
#include "engine/training/epoch_profile.hpp"

namespace atl {

// Per epoch. At least one epoch.
Json to_json(const EpochProfile& profile);

// From what to_json() gave.
void print_profile(const Json& profile);

}  // namespace atl
