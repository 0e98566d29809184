#include "engine/comm/rank_list.hpp"

#include <fmt/ranges.h>

#include "base/error.hpp"

namespace atl {

std::string rank_list(std::span<const int> ranks) {
  constexpr std::size_t kNamed = 8;
  ATOLL_ASSERT(!ranks.empty());
  if (ranks.size() == 1) return fmt::format("rank {}", ranks.front());
  if (ranks.size() <= kNamed) {
    return fmt::format("ranks {} and {}", fmt::join(ranks.first(ranks.size() - 1), ", "),
                       ranks.back());
  }
  return fmt::format("ranks {} and {} more", fmt::join(ranks.first(kNamed - 1), ", "),
                     ranks.size() - (kNamed - 1));
}

}  // namespace atl
