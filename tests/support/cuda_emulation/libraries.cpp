// The emulator's libraries as the dynamic linker finds them: include/dlfcn.h.
#include <dlfcn.h>
#undef dlopen
#undef dlsym
#undef dlclose

#include <map>
#include <string>
#include <string_view>

#include "engine/comm/nccl/nccl_library.hpp"
#include "kernels/cuda/libraries.hpp"
#include "tests/support/cuda_emulation/environment.hpp"

namespace atl::cuda_emulation {

namespace {

using Functions = std::map<std::string_view, void*>;

#define ATOLL_ENTRY(name) {#name, reinterpret_cast<void*>(&::name)},
std::map<std::string_view, Functions>& installed() {
  static std::map<std::string_view, Functions> libraries = {
      {"libcublas.so.13", {ATOLL_CUBLAS_FUNCTIONS(ATOLL_ENTRY)}},
      {"libcublasLt.so.13", {ATOLL_CUBLAS_LT_FUNCTIONS(ATOLL_ENTRY)}},
      {"libcusparse.so.12", {ATOLL_CUSPARSE_FUNCTIONS(ATOLL_ENTRY)}},
      {"libnccl.so.2", {ATOLL_NCCL_FUNCTIONS(ATOLL_ENTRY) ATOLL_NCCL_LATER_FUNCTIONS(ATOLL_ENTRY)}},
  };
  return libraries;
}
#undef ATOLL_ENTRY

int nccl_version() {
  int version = 0;
  ncclGetVersion(&version);
  return version;
}

// Null for a library of the real dynamic linker.
Functions* emulated(void* library) {
  for (auto& [file, functions] : installed()) {
    if (&functions == library) return &functions;
  }
  return nullptr;
}

}  // namespace

void* open_library(const char* file, int flags) {
  if (environment_number("ATOLL_EMULATION_LIBRARIES", 1) != 0) {
    const auto found = installed().find(file);
    if (found != installed().end()) return &found->second;
  }
  return ::dlopen(file, flags);
}

void* find_function(void* library, const char* name) {
  const Functions* functions = emulated(library);
  if (functions == nullptr) return ::dlsym(library, name);
  if (std::string_view(name) == "ncclCommSplit" && nccl_version() < NCCL_VERSION(2, 18, 1)) {
    return nullptr;
  }
  const auto found = functions->find(name);
  return found == functions->end() ? nullptr : found->second;
}

int close_library(void* library) { return emulated(library) == nullptr ? ::dlclose(library) : 0; }

}  // namespace atl::cuda_emulation
