// Every choice, last decision fastest: the oracle of the other strategies.
#include "engine/placement/search_state.hpp"

namespace atl {

namespace {

// The choice after `choice`; false after the last.
bool take_next(const SearchSpace& space, std::vector<int>& choice) {
  for (int d = static_cast<int>(choice.size()) - 1; d >= 0; --d) {
    if (++choice[d] < space.options(d)) return true;
    choice[d] = 0;
  }
  return false;
}

class ExhaustiveSearch final : public SearchStrategy {
 public:
  SearchResult search(SearchSpace& space, const SearchOptions& options) const override {
    SearchState state(space, options, SearchState::Memory::kForget);
    std::vector<int> choice(state.start().size(), 0);
    while (state.evaluate(choice) && take_next(space, choice)) {
    }
    return state.result();
  }
};

}  // namespace

std::unique_ptr<SearchStrategy> make_exhaustive_search() {
  return std::make_unique<ExhaustiveSearch>();
}

}  // namespace atl
