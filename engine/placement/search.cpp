#include "engine/placement/search.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "base/error.hpp"
#include "engine/placement/search_state.hpp"

namespace atl {

namespace {

// Every choice, last decision fastest: the oracle of the other strategies.
SearchResult search_exhaustively(SearchSpace& space, const SearchOptions& options) {
  SearchState state(space, options, SearchState::Memory::kForget);
  std::vector<int> choice(state.start().size(), 0);
  const auto take_next = [&] {
    for (int d = static_cast<int>(choice.size()) - 1; d >= 0; --d) {
      if (++choice[d] < space.options(d)) return true;
      choice[d] = 0;
    }
    return false;
  };
  while (state.evaluate(choice) && take_next()) {
  }
  return state.result();
}

// Choices drawn uniformly: what any other strategy must beat.
SearchResult search_at_random(SearchSpace& space, const SearchOptions& options) {
  SearchState state(space, options);
  std::vector<int> choice = state.start();
  while (!state.complete()) {
    for (int d = 0; d < static_cast<int>(choice.size()); ++d) {
      choice[d] = state.draws().below(space.options(d));
    }
    if (!state.evaluate(choice)) break;
  }
  return state.result();
}

// Coordinate descent: the heaviest decision takes its best option while all others stay, then the
// next one, and again from the first until no single change improves.
SearchResult search_greedily(SearchSpace& space, const SearchOptions& options) {
  SearchState state(space, options);
  const int decisions = space.decisions();
  // Decisions in a row that can't improve the best; all of them: no single change does.
  for (int d = 0, settled = 0; settled < decisions; d = (d + 1) % decisions, ++settled) {
    const std::vector<int> before = state.best();
    std::vector<int> choice = before;
    for (choice[d] = 0; choice[d] < space.options(d); ++choice[d]) {
      if (!state.evaluate(choice)) return state.result();
    }
    if (state.best() != before) settled = 0;
  }
  return state.result();
}

struct Strategy {
  const char* name;
  SearchResult (*search)(SearchSpace& space, const SearchOptions& options);
};
constexpr Strategy kStrategies[] = {{"exhaustive", search_exhaustively},
                                    {"random", search_at_random},
                                    {"greedy", search_greedily},
                                    {"mcmc", search_by_walk},
                                    {"mcts", search_by_tree}};

}  // namespace

std::vector<double> uniform_prior(SearchSpace& space, std::span<const int> /*chosen*/,
                                  int decision) {
  const int options = space.options(decision);
  return std::vector<double>(static_cast<std::size_t>(options), 1.0 / options);
}

std::uint64_t count_choices(const SearchSpace& space) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t choices = 1;
  for (int d = 0; d < space.decisions(); ++d) {
    const int options = space.options(d);
    ATOLL_ASSERT(options >= 1, "decision {} has {} options", d, options);
    const auto factor = static_cast<std::uint64_t>(options);
    choices = choices > kMost / factor ? kMost : choices * factor;
  }
  return choices;
}

std::vector<int> inherit(const SearchSpace& space, std::vector<int> start,
                         std::span<const int> chosen) {
  std::ranges::copy(chosen, start.begin());
  for (int d = static_cast<int>(chosen.size()); d < space.decisions(); ++d) {
    const int model = space.model_of(d);
    ATOLL_ASSERT(model < d, "decision {} is modelled on {}", d, model);
    if (model >= 0 && start[model] < space.options(d)) start[d] = start[model];
  }
  return start;
}

bool is_better(const PlanCost& a, const PlanCost& b) {
  if (a.missing_bytes != b.missing_bytes) return a.missing_bytes < b.missing_bytes;
  return a.seconds < b.seconds;
}

std::vector<std::string> search_strategies() {
  std::vector<std::string> names;
  for (const Strategy& strategy : kStrategies) names.emplace_back(strategy.name);
  return names;
}

SearchResult search(const std::string& name, SearchSpace& space, const SearchOptions& options) {
  for (const Strategy& strategy : kStrategies) {
    if (strategy.name == name) return strategy.search(space, options);
  }
  fail_option("--search {}: unknown search strategy; allowed are: {}", name,
              fmt::join(search_strategies(), ", "));
}

}  // namespace atl
