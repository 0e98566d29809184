// The functions from the toolkit's shared libraries.
#include <dlfcn.h>

#include <string>

#include "base/error.hpp"
#include "kernels/cuda/libraries.hpp"

namespace atl::cuda {

namespace {

// From where the dynamic linker looks, else from the toolkit of the build.
void* open(const std::string& file) {
  const std::string of_build = std::string(ATOLL_CUDA_LIBRARY_FOLDER) + "/" + file;
  std::string reasons;
  for (const std::string& path : {file, of_build}) {
    if (void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    const char* reason = ::dlerror();
    if (!reasons.empty()) reasons += "; ";
    reasons += reason == nullptr ? "no reason given" : reason;
  }
  fail(ErrorKind::kDevice,
       "backend cuda: {} does not load ({}); it comes with the CUDA toolkit: put the folder that "
       "holds it on LD_LIBRARY_PATH",
       file, reasons);
}

template <typename Function>
void find(void* library, const std::string& file, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr) {
    fail(ErrorKind::kDevice, "backend cuda: {} has no function {}: it is of another version", file,
         name);
  }
}

// Never closed: what the libraries do at their end must not depend on ours.
Libraries load() {
  Libraries found;
  std::string file;
  void* library = nullptr;
  const auto begin = [&](const char* name, int version) {
    file = fmt::format("lib{}.so.{}", name, version);
    library = open(file);
  };
#define ATOLL_FIND_FUNCTION(name) find(library, file, #name, found.name);
  begin("cublasLt", CUBLAS_VER_MAJOR);
  ATOLL_CUBLAS_LT_FUNCTIONS(ATOLL_FIND_FUNCTION)
  begin("cublas", CUBLAS_VER_MAJOR);
  ATOLL_CUBLAS_FUNCTIONS(ATOLL_FIND_FUNCTION)
  begin("cusparse", CUSPARSE_VER_MAJOR);
  ATOLL_CUSPARSE_FUNCTIONS(ATOLL_FIND_FUNCTION)
#undef ATOLL_FIND_FUNCTION
  return found;
}

}  // namespace

const Libraries& libraries() {
  static const Libraries loaded = load();
  return loaded;
}

}  // namespace atl::cuda
