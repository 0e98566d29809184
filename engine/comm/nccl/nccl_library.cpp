#include "engine/comm/nccl/nccl_library.hpp"

#include <cuda_runtime.h>
#include <dlfcn.h>

#include "base/error.hpp"
#include "kernels/cuda_libraries.hpp"

namespace atl {

namespace {

NcclLibrary load_nccl() {
  NcclLibrary found;
#define ATOLL_NAME(name) #name,
#define ATOLL_FIND(name) \
  found.name = reinterpret_cast<decltype(found.name)>(::dlsym(library, #name));
  constexpr const char* kFunctions[] = {ATOLL_NCCL_FUNCTIONS(ATOLL_NAME)};
  std::string why;
  void* const library = load_cuda_library(
      {"libnccl.so.2", ATOLL_NCCL_OF_BUILD, fmt::format("nvidia-nccl-cu{}", CUDART_VERSION / 1000)},
      kFunctions, why);
  if (library == nullptr) fail(ErrorKind::kCommunication, "{}", why);
  ATOLL_NCCL_FUNCTIONS(ATOLL_FIND)
  ATOLL_NCCL_LATER_FUNCTIONS(ATOLL_FIND)
#undef ATOLL_FIND
#undef ATOLL_NAME
  return found;
}

}  // namespace

const NcclLibrary& nccl() {
  static const NcclLibrary loaded = load_nccl();
  return loaded;
}

}  // namespace atl
