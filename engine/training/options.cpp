#include "engine/training/options.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "kernels/registry.hpp"

namespace atl {

namespace {

std::vector<std::string> backends_of(const std::string& list) {
  std::vector<std::string> names;
  std::istringstream words(list);
  for (std::string name; std::getline(words, name, ',');) names.push_back(name);
  return names;
}

}  // namespace

void check_options(const TrainOptions& options) {
  const std::string& bits = options.widths.bits;
  const std::size_t widths = fixed_widths(bits).size();
  if (widths > 1 && widths != static_cast<std::size_t>(options.model.layers)) {
    fail_option("--bits {}: {} widths for {} layers; give one, or one per layer", bits, widths,
                options.model.layers);
  }
  const bool widths_change = bits == "adaptive" || bits == "random";
  if (options.exchange == "quantized" && widths_change && options.cuda_graph == GraphReplay::kOn) {
    fail_option("--cuda-graph on: packets of --bits {} change their size; use auto", bits);
  }
  if (options.trace && options.cuda_graph == GraphReplay::kOn) {
    fail_option("--trace: a replayed epoch has no spans; leave out --cuda-graph on");
  }
  if (options.patience > 0 && options.eval_every == 0) {
    fail_option("--patience {}: needs evaluations; --eval-every must be at least 1",
                options.patience);
  }
}

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

std::string backend_of_rank(const std::string& list, int rank, int size) {
  const std::vector<std::string> names = backends_of(list);
  if (names.size() == 1) return names[0];
  if (std::ssize(names) != size) {
    fail_option("--backend {}: {} names for {} ranks; give one, or one per rank", list,
                names.size(), size);
  }
  return names[static_cast<std::size_t>(rank)];
}

}  // namespace atl
