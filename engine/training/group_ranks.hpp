// --group-ranks: how many ranks hold a part of the graph together (docs/groups.md).
#pragma once

#include <span>
#include <string>

#include "engine/comm/transport.hpp"
#include "engine/exchange/rank_map.hpp"

namespace atl {

struct GroupRanks {
  enum class By { kNumber, kHost, kAll, kAuto };
  By by = By::kNumber;
  int number = 1;  // of kNumber

  // Whether parts may have several ranks.
  bool any() const { return by != By::kNumber || number > 1; }
  bool operator==(const GroupRanks&) const = default;
};
std::string to_string(const GroupRanks& ranks);  // "1", "host", "all", "auto"
// The reverse; throws Error{kOption} for other texts.
GroupRanks parse_group_ranks(const std::string& text);

// Which ranks hold which part. Throws Error{kOption} on all ranks if these can't be grouped so, and
// for auto, which a plan decides.
// Collective.
RankMap rank_map(const GroupRanks& wish, Transport& transport);
// The same of ranks on these hosts, which has no other ranks to agree with.
RankMap rank_map(const GroupRanks& wish, std::span<const std::int64_t> hosts);

}  // namespace atl
