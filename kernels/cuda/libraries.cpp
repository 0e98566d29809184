#include "kernels/cuda/libraries.hpp"

#include <dlfcn.h>

#include "base/error.hpp"
#include "kernels/cuda_libraries.hpp"

namespace atl::cuda {

namespace {

// library: "cublasLt"; project: what pip calls the package that holds it, without CUDA's version,
// which has been part of the package's own version since CUDA 13.
void* open_or_fail(const std::string& library, int version, const std::string& project,
                   std::span<const char* const> functions) {
  const std::string file = fmt::format("lib{}.so.{}", library, version);
  constexpr int kCuda = CUDART_VERSION / 1000;
  const std::string package = kCuda < 13 ? fmt::format("{}-cu{}", project, kCuda) : project;
  std::string why;
  void* found = load_cuda_library(
      {file, fmt::format("{}/{}", ATOLL_CUDA_LIBRARY_FOLDER, file), package}, functions, why);
  if (found == nullptr) fail(ErrorKind::kDevice, "{}", why);
  return found;
}

Libraries load_all() {
  Libraries found;
#define ATOLL_NAME(name) #name,
#define ATOLL_FIND(name) \
  found.name = reinterpret_cast<decltype(found.name)>(::dlsym(library, #name));
#define ATOLL_LOAD(name, version, project, FUNCTIONS)                       \
  {                                                                         \
    constexpr const char* kFunctions[] = {FUNCTIONS(ATOLL_NAME)};           \
    void* const library = open_or_fail(name, version, project, kFunctions); \
    FUNCTIONS(ATOLL_FIND)                                                   \
  }
  ATOLL_LOAD("cublasLt", CUBLAS_VER_MAJOR, "nvidia-cublas", ATOLL_CUBLAS_LT_FUNCTIONS)
  ATOLL_LOAD("cublas", CUBLAS_VER_MAJOR, "nvidia-cublas", ATOLL_CUBLAS_FUNCTIONS)
  ATOLL_LOAD("cusparse", CUSPARSE_VER_MAJOR, "nvidia-cusparse", ATOLL_CUSPARSE_FUNCTIONS)
#undef ATOLL_LOAD
#undef ATOLL_FIND
#undef ATOLL_NAME
  return found;
}

}  // namespace

const Libraries& libraries() {
  static const Libraries loaded = load_all();
  return loaded;
}

}  // namespace atl::cuda
