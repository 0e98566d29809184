#include "kernels/registry.hpp"

#include <fmt/ranges.h>

#include "base/error.hpp"

namespace atl {

std::vector<std::string> backend_names() { return {"reference", "cpu", "cuda"}; }

std::unique_ptr<Backend> make_backend(const std::string& name, const BackendOptions& options) {
  if (name == "reference") return make_reference_backend();
  if (name == "cpu") return make_cpu_backend(options.threads);
  if (name == "cuda") return make_cuda_backend(options);
  if (name == "auto") {
    std::string why;
    return make_backend(cuda_device_count(why) > 0 ? "cuda" : "cpu", options);
  }
  fail_option("unknown backend '{}'; allowed are auto, {}", name, fmt::join(backend_names(), ", "));
}

}  // namespace atl
