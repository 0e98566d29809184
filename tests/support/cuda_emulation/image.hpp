// Reads from the running program's own symbol table: the variables that stand for shared memory,
// and the names of kernels for messages.
#pragma once

#include <cstddef>
#include <vector>

namespace atl::cuda_emulation {

struct SharedVariable {
  void* address;
  std::size_t bytes;
};

// Every __shared__ variable of the program, found through the marker beside it. Empty when the
// program was stripped.
const std::vector<SharedVariable>& shared_variables();

// Mangled name of the function that starts at `address`, "an unnamed kernel" if there is none.
// Allocates nothing once shared_variables() was called, so that a signal handler may use it.
const char* function_name(const void* address);

}  // namespace atl::cuda_emulation
