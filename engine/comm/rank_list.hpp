// Names several ranks in a message: "rank 3", "ranks 0, 1 and 2".
#pragma once

#include <span>
#include <string>

namespace atl {

// The first few of many ranks, and how many more. `ranks` is not empty.
std::string rank_list(std::span<const int> ranks);

}  // namespace atl
