#include "kernels/registry.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/numbers.hpp"

namespace atl {

std::vector<std::string> backend_names() { return {"reference", "cpu", "cuda"}; }

std::vector<std::string> backends_of(const std::string& list) { return between_commas(list); }

std::string backend_list_problem(const std::string& list) {
  if (list.empty()) return "an empty value";
  std::vector<std::string> allowed = backend_names();
  allowed.insert(allowed.begin(), "auto");
  for (const std::string& name : backends_of(list)) {
    if (std::ranges::count(allowed, name) > 0) continue;
    return fmt::format("value {}; allowed are {}, or one of these per rank as in cuda,cpu", list,
                       fmt::join(allowed, ", "));
  }
  return "";
}

std::unique_ptr<Backend> make_backend(const std::string& name, const BackendOptions& options,
                                      BackendObstacle* obstacle) {
  if (name == "reference") return make_reference_backend();
  if (name == "cpu") return make_cpu_backend(options.threads);
  if (name == "cuda") return make_cuda_backend(options);
  if (name == "auto") {
    try {
      return make_cuda_backend(options);
    } catch (const UnusableBackend& unusable) {
      if (obstacle != nullptr) *obstacle = unusable.obstacle();
      return make_cpu_backend(options.threads);
    }
  }
  fail_option("unknown backend '{}'; allowed are auto, {}", name, fmt::join(backend_names(), ", "));
}

}  // namespace atl
