#include "engine/placement/search_moves.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"

namespace atl {

namespace {

constexpr double kSwaps = 0.3;

}  // namespace

int draw_other_option(SearchSpace& space, SearchState& state, const std::vector<int>& choice,
                      int decision) {
  const int other = state.draws().below(space.options(decision) - 1);
  return other < choice[decision] ? other : other + 1;
}

bool make_move(SearchSpace& space, SearchState& state, int first, const DrawOption& draw,
               std::vector<int>& choice) {
  const int free = space.decisions() - first;
  if (free == 0) return false;
  const int d = first + state.draws().below(free);
  if (state.draws().unit() >= kSwaps) {
    if (space.options(d) == 1) return false;
    const int option = draw(choice, d);
    const bool moves = option != choice[d];
    choice[d] = option;
    return moves;
  }
  const int e = first + state.draws().below(free);
  if (choice[d] == choice[e] || choice[d] >= space.options(e) || choice[e] >= space.options(d)) {
    return false;
  }
  std::swap(choice[d], choice[e]);
  return true;
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

}  // namespace atl
