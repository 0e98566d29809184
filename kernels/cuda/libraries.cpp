#include "kernels/cuda/libraries.hpp"

#include <dlfcn.h>

#include "base/error.hpp"
#include "kernels/cuda_libraries.hpp"

namespace atl::cuda {

namespace {

// The file of cuSPARSE has one name in CUDA 12, whose versions end with 12.5, and in CUDA 13.
std::string lack_of_cusparse(void* library) {
  const auto property =
      reinterpret_cast<decltype(&::cusparseGetProperty)>(::dlsym(library, "cusparseGetProperty"));
  int major = 0;
  int minor = 0;
  property(MAJOR_VERSION, &major);
  property(MINOR_VERSION, &minor);
  const auto is_of_cuda_13 = [](int a, int b) { return a > 12 || (a == 12 && b > 5); };
  if (is_of_cuda_13(major, minor) == is_of_cuda_13(CUSPARSE_VER_MAJOR, CUSPARSE_VER_MINOR)) {
    return "";
  }
  return fmt::format("is version {}.{}, which is not of CUDA {}", major, minor,
                     CUDART_VERSION / 1000);
}

// name: "cublasLt"; package: what pip calls the one that holds it, without CUDA's version, which
// has been part of the package's own version since CUDA 13.
CudaLibrary library_of_toolkit(const std::string& name, int version, const std::string& package) {
  constexpr int kCuda = CUDART_VERSION / 1000;
  CudaLibrary library;
  library.file = fmt::format("lib{}.so.{}", name, version);
  const std::string folder = ATOLL_CUDA_LIBRARY_FOLDER;
  if (!folder.empty()) library.of_build = fmt::format("{}/{}", folder, library.file);
  library.package = kCuda < 13 ? fmt::format("{}-cu{}", package, kCuda) : package;
  return library;
}

void* load_or_fail(const CudaLibrary& library, std::span<const char* const> functions) {
  std::string why;
  void* found = load_cuda_library(library, functions, why);
  if (found == nullptr) fail(ErrorKind::kDevice, "{}", why);
  return found;
}

Libraries load_all() {
  Libraries found;
  CudaLibrary blas_lt = library_of_toolkit("cublasLt", CUBLAS_VER_MAJOR, "nvidia-cublas");
  CudaLibrary blas = library_of_toolkit("cublas", CUBLAS_VER_MAJOR, "nvidia-cublas");
  CudaLibrary sparse = library_of_toolkit("cusparse", CUSPARSE_VER_MAJOR, "nvidia-cusparse");
  sparse.lack = lack_of_cusparse;
#define ATOLL_NAME(name) #name,
#define ATOLL_FIND(name) \
  found.name = reinterpret_cast<decltype(found.name)>(::dlsym(library, #name));
#define ATOLL_LOAD(wanted, FUNCTIONS)                             \
  {                                                               \
    constexpr const char* kFunctions[] = {FUNCTIONS(ATOLL_NAME)}; \
    void* const library = load_or_fail(wanted, kFunctions);       \
    FUNCTIONS(ATOLL_FIND)                                         \
  }
  ATOLL_LOAD(blas_lt, ATOLL_CUBLAS_LT_FUNCTIONS)
  ATOLL_LOAD(blas, ATOLL_CUBLAS_FUNCTIONS)
  ATOLL_LOAD(sparse, ATOLL_CUSPARSE_FUNCTIONS)
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
