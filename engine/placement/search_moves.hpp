// Steps of the strategies that walk: from a choice to one beside it.
#pragma once

#include <functional>
#include <vector>

#include "engine/placement/search_state.hpp"

namespace atl {

// The option that `decision`, which has at least two, is to take; that of `choice` is no move.
using DrawOption = std::function<int(const std::vector<int>& choice, int decision)>;
int draw_other_option(SearchSpace& space, SearchState& state, const std::vector<int>& choice,
                      int decision);

// Changes `choice` at decisions from `first` on. Three moves in ten swap the options of two
// decisions: two parts change places, where moving one of them would overload a rank. False, and
// nothing changed: what was drawn is no move; draw again.
bool make_move(SearchSpace& space, SearchState& state, int first, const DrawOption& draw,
               std::vector<int>& choice);

// The full choice whose first decisions are `chosen`; the others inherit (SearchSpace::model_of).
std::vector<int> inherit(const SearchSpace& space, std::vector<int> start,
                         std::span<const int> chosen);

}  // namespace atl
