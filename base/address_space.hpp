// A limit of the address space (ulimit -v), as batch systems and shared machines set it. Libraries
// that meet it in the middle of something end the process, so it is looked at before.
#pragma once

#include <cstdint>
#include <optional>

namespace atl {

// The rest of the limit, less what threads and libraries may still want; none: no limit.
std::optional<std::int64_t> address_space_left();

// Call first in main. Under a limit, threads share one heap (each would reserve 64 MiB for its
// own). Returns how many threads OpenMP may start, so that there is room for their stacks; none: no
// limit. Throws Error{kMemory} if the limit leaves too little for any command.
std::optional<int> fit_address_space();

}  // namespace atl
