// A test's requests to the emulator beyond CUDA's own interface.
//
// Environment of the program, all numbers:
//   ATOLL_EMULATION_DEVICES  devices to see, 1 by default; 0 is a machine without any
//   ATOLL_EMULATION_DRIVER   CUDA version that the driver serves, as 12040 for 12.4: one that is
//                            older than the program serves nothing; 0 is a machine without a driver
//   ATOLL_EMULATION_CODE     0: the program has no code for the devices, no kernel runs
//   ATOLL_EMULATION_LIBRARIES  0: cuBLAS, cuSPARSE and NCCL are only found as files
//   ATOLL_EMULATION_NCCL     version of NCCL, as 21703 for 2.17.3; before 2.18.1 it has no groups
//   ATOLL_EMULATION_MEMORY   bytes of memory of each device, 2 GiB by default
//   ATOLL_EMULATION_POOLS    0: devices without memory pools
//   ATOLL_EMULATION_SEED     order in which blocks, threads and nodes of graphs take turns
//   ATOLL_EMULATION_LAZY     0: work is executed when it is queued, for debugging
//   ATOLL_EMULATION_PROTECT  0: host code may touch device memory, for debugging
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <string>

namespace atl::cuda_emulation {

// The next kernel that is executed, on any device, does nothing and leaves `error` as its device's
// sticky error: from then on every call on that device returns it, until clear_errors().
void fail_next_kernel(cudaError_t error);

// The next calls of `function`, by the name of its header, do nothing and return `status`, an error
// code of its library. Functions that can fail so: cudaGraphInstantiate, cudaHostAlloc,
// cudaMallocFromPoolAsync, cudaMemPoolCreate, cublasLtMatmul, cusparseCreateCsr, cusparseSpMM,
// cusparseSpMM_bufferSize, cusparseSpMM_preprocess; any other ends the program.
void fail_next_calls(const std::string& function, int status, int calls = 1);

// Ends sticky errors of all devices, the injections, and the calling thread's last error.
void clear_errors();

// Work that streams hold and that has not been executed yet, over all devices.
std::size_t pending_items();

// Kernels executed since the process began.
std::size_t executed_kernels();

// Times that the host has waited for a device since the process began: for a stream, an event, all
// of a device, or the end of a copy. Asking whether work has ended is no waiting.
std::size_t host_waits();

// Handles of cuBLAS, cuBLASLt and cuSPARSE made since the process began.
std::size_t library_handles_made();

// Device memory of the current device in use by live allocations, in bytes.
std::size_t allocated_bytes();

}  // namespace atl::cuda_emulation
