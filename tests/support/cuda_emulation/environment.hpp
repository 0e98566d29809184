// Reads the emulator's switches.
#pragma once

#include <cstdint>

namespace atl::cuda_emulation {

// The environment variable as a number, `fallback` if it is unset. Ends the process if it is set to
// anything else.
std::uint64_t environment_number(const char* name, std::uint64_t fallback);

}  // namespace atl::cuda_emulation
