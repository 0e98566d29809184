// Coordinate descent: the heaviest decision takes its best option while all others stay, then the
// next one, and again from the first until no single change improves.
#include "engine/placement/search_state.hpp"

namespace atl {

namespace {

class GreedySearch final : public SearchStrategy {
 public:
  SearchResult search(SearchSpace& space, const SearchOptions& options) const override {
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
};

}  // namespace

std::unique_ptr<SearchStrategy> make_greedy_search() { return std::make_unique<GreedySearch>(); }

}  // namespace atl
