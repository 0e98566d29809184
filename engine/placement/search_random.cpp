// Choices drawn uniformly: what any other strategy must beat.
#include "engine/placement/search_run.hpp"

namespace atl {

namespace {

class RandomSearch final : public SearchStrategy {
 public:
  SearchResult search(SearchSpace& space, const SearchOptions& options) const override {
    SearchRun run(space, options);
    std::vector<int> choice = run.start();
    while (!run.complete()) {
      for (int d = 0; d < static_cast<int>(choice.size()); ++d) {
        choice[d] = run.draws().below(space.options(d));
      }
      if (!run.evaluate(choice)) break;
    }
    return run.result();
  }
};

}  // namespace

std::unique_ptr<SearchStrategy> make_random_search() { return std::make_unique<RandomSearch>(); }

}  // namespace atl
