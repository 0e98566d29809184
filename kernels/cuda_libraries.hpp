// Finds the shared libraries of CUDA that programs of this project load when they first need them.
#pragma once

#include <functional>
#include <span>
#include <string>

namespace atl {

struct CudaLibrary {
  std::string file;      // "libcublas.so.13"
  std::string of_build;  // where it was when the program was built; empty: unknown
  std::string package;   // what pip calls it
  // The fault of a library that has all functions, as "is of CUDA 12"; "" or no function: nothing.
  std::function<std::string(void* library)> lack = {};
};

// Loads the library, never to be closed, and returns dlopen's handle. It is looked for
//   in the folder that ATOLL_CUDA_LIBRARIES names, and then nowhere else;
//   where the dynamic linker looks (LD_LIBRARY_PATH and the system's folders);
//   where it was when the program was built;
//   in nvidia/*/lib of Python's packages, where pip puts it: of those among which the program lies,
//   of PYTHONPATH, VIRTUAL_ENV and CONDA_PREFIX, of the python3 on PATH, and of the user.
// One that lacks something is of another version and passed over. Null if there is none,
// and in `why` what was found and what to do.
void* load_cuda_library(const CudaLibrary& library, std::span<const char* const> functions,
                        std::string& why);

}  // namespace atl
