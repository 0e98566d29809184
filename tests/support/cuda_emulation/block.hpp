// Runs a kernel's blocks one after another on the calling host thread, with barriers and warp
// exchange between the threads of a block.
#pragma once

#include <cuda_runtime.h>

#include <functional>

namespace atl::cuda_emulation {

struct KernelLaunch {
  dim3 grid;
  dim3 block;
  const void* function;
  std::function<void()> thread;  // runs one thread of the kernel
};

// At most one call may be in progress in the process. Blocks and threads take turns in an order
// drawn from ATOLL_EMULATION_SEED. A kernel that breaks the rules of barriers ends the process with
// a message.
void run_kernel(const KernelLaunch& launch);

// Name of the kernel that is running, null outside run_kernel().
const char* running_kernel();

}  // namespace atl::cuda_emulation
