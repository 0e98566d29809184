// The addresses that device memory comes from, and what happens when they are touched.
#pragma once

#include <cstddef>
#include <cstdint>

namespace atl::cuda_emulation {

inline constexpr std::size_t kPage = 4096;

struct Arena {
  std::uintptr_t begin, end;
};

// Reserved without access at the first call, which also installs a handler for access faults: it
// asks Memory::resolve_fault(), else explains the fault and lets it happen again under the action
// that was installed before.
const Arena& arena();

// Changes the rights to whole pages (PROT_*); ends the process if that fails.
void protect(std::uintptr_t first_page, std::size_t bytes, int protection);
// Gives the pages back to the system; every access crashes from then on.
void discard(std::uintptr_t first_page, std::size_t bytes);

}  // namespace atl::cuda_emulation
