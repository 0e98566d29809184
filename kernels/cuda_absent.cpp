// Stands in for kernels/cuda in a build without it, so that no other source asks whether it is
// there.
#include "base/error.hpp"
#include "kernels/registry.hpp"

namespace atl {

namespace {
constexpr const char* kWhy =
    "this build has no CUDA backend (no CUDA toolkit was found when it was configured, or "
    "ATOLL_CUDA was off): build it with a CUDA toolkit (docs/gpu.md)";
}

int cuda_device_count(std::string& why) {
  why = kWhy;
  return 0;
}

std::unique_ptr<Backend> make_cuda_backend(const BackendOptions&) {
  throw UnusableBackend("cuda", {kWhy});
}

}  // namespace atl
