// --group-ranks: how many ranks hold a part of the graph together (docs/groups.md).
#pragma once

#include <string>

#include "engine/comm/transport.hpp"
#include "engine/exchange/rank_map.hpp"

namespace atl {

struct GroupRanks {
  enum class By { kNumber, kHost, kAll };
  By by = By::kNumber;
  int number = 1;  // of kNumber

  // Whether parts may have several ranks.
  bool any() const { return by != By::kNumber || number > 1; }
  bool operator==(const GroupRanks&) const = default;
};
std::string to_string(const GroupRanks& ranks);  // "1", "host", "all"
// The reverse; throws Error{kOption} for other texts.
GroupRanks parse_group_ranks(const std::string& text);

// Which ranks hold which part. Throws Error{kOption} on all ranks if these can't be grouped so.
// Collective.
RankMap rank_map(const GroupRanks& wish, Transport& transport);

}  // namespace atl
