// The dynamic linker for sources of the emulated device: it finds the emulator's own cuBLAS,
// cuBLASLt, cuSPARSE and NCCL under their files' names, and everything else where it always does.
#pragma once

#include_next <dlfcn.h>

namespace atl::cuda_emulation {

void* open_library(const char* file, int flags);
void* find_function(void* library, const char* name);
int close_library(void* library);

}  // namespace atl::cuda_emulation

#define dlopen atl::cuda_emulation::open_library
#define dlsym atl::cuda_emulation::find_function
#define dlclose atl::cuda_emulation::close_library
