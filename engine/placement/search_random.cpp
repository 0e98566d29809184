// Choices drawn uniformly: what any other strategy must beat.
#include "engine/placement/search_state.hpp"

namespace atl {

namespace {

class RandomSearch final : public SearchStrategy {
 public:
  SearchResult search(SearchSpace& space, const SearchOptions& options) const override {
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
};

}  // namespace

std::unique_ptr<SearchStrategy> make_random_search() { return std::make_unique<RandomSearch>(); }

}  // namespace atl
