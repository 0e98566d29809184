// Functions of the host as work of a stream.
#pragma once

#include <cuda_runtime.h>

#include <memory>

#include "tests/support/cuda_emulation/stream.hpp"

namespace atl::cuda_emulation {

// Called without the emulator's lock. As the host may wait for its effect without calling CUDA
// again, a thread of the emulator executes the stream up to it after some milliseconds.
std::shared_ptr<Operation> make_host_function(cudaHostFn_t function, void* argument);

}  // namespace atl::cuda_emulation
