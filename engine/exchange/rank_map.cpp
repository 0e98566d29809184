#include "engine/exchange/rank_map.hpp"

#include <set>

namespace atl {

int ranks_of_each(std::span<const std::int64_t> places) {
  std::size_t each = 1;
  while (each < places.size() && places[each] == places[0]) ++each;
  if (places.size() % each != 0) return 0;
  std::set<std::int64_t> seen;
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const bool is_first = rank % each == 0;
    const bool follows =
        is_first ? seen.insert(places[rank]).second : places[rank] == places[rank - 1];
    if (!follows) return 0;
  }
  return static_cast<int>(each);
}

}  // namespace atl
