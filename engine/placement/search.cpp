#include "engine/placement/search.hpp"

#include <fmt/ranges.h>

#include "base/error.hpp"
#include "engine/placement/search_state.hpp"

namespace atl {

namespace {

class UniformPrior final : public Prior {
 public:
  std::vector<double> probabilities(SearchSpace& space, std::span<const int> /*chosen*/,
                                    int decision) override {
    const int options = space.options(decision);
    return std::vector<double>(static_cast<std::size_t>(options), 1.0 / options);
  }
};

}  // namespace

std::unique_ptr<Prior> make_uniform_prior() { return std::make_unique<UniformPrior>(); }

bool is_better(const PlanCost& a, const PlanCost& b) {
  if (a.missing_bytes != b.missing_bytes) return a.missing_bytes < b.missing_bytes;
  return a.seconds < b.seconds;
}

std::vector<std::string> search_strategies() {
  return {"exhaustive", "random", "greedy", "mcmc", "mcts"};
}

std::unique_ptr<SearchStrategy> make_search_strategy(const std::string& name) {
  if (name == "exhaustive") return make_exhaustive_search();
  if (name == "random") return make_random_search();
  if (name == "greedy") return make_greedy_search();
  if (name == "mcmc") return make_mcmc_search();
  if (name == "mcts") return make_mcts_search();
  fail_option("--search {}: unknown search strategy; allowed are: {}", name,
              fmt::join(search_strategies(), ", "));
}

}  // namespace atl
