// The functions from NCCL's shared library.
#include <dlfcn.h>

#include <string>

#include "base/error.hpp"
#include "engine/comm/nccl/nccl_library.hpp"

namespace atl {

namespace {

constexpr const char* kFile = "libnccl.so.2";

// From where the dynamic linker looks, else the one of the build.
void* open() {
  std::string reasons;
  for (const char* path : {kFile, ATOLL_NCCL_OF_BUILD}) {
    if (void* library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL)) return library;
    const char* reason = ::dlerror();
    if (!reasons.empty()) reasons += "; ";
    reasons += reason == nullptr ? "no reason given" : reason;
  }
  fail(ErrorKind::kCommunication, "{} does not load ({})", kFile, reasons);
}

template <typename Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr) {
    fail(ErrorKind::kCommunication, "{} has no function {}: it is of another version", kFile, name);
  }
}

// Never closed: its threads may outlive the last transport.
NcclLibrary load() {
  NcclLibrary found;
  void* library = open();
#define ATOLL_FIND_FUNCTION(name) find(library, #name, found.name);
  ATOLL_NCCL_FUNCTIONS(ATOLL_FIND_FUNCTION)
#undef ATOLL_FIND_FUNCTION
  return found;
}

}  // namespace

const NcclLibrary& nccl() {
  static const NcclLibrary loaded = load();
  return loaded;
}

}  // namespace atl
