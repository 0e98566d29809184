// Marginal rows in groups by the messages that they wait for: rows whose messages have come are
// computed while others are still under way.
//
// The packets of a layer travel side by side, each in as many pieces as there are groups. Messages
// lie in a packet as the rows of the receiver need them (CoveredGraph), so each piece completes
// about as many rows as it has messages.
#pragma once

#include <utility>

#include "partition/local_graph.hpp"

namespace atl {

// Each is a call of its own for every operation that waits, so there are few.
inline constexpr int kMarginalGroups = 4;

// Whether rows of a group are computed before the messages of later ones have come.
enum class Arrival : std::uint8_t {
  kAuto,  // where pieces of packets are seen to come, and messages lie in an order of need
  kOn,    // also where they don't
  kOff,
};
const char* to_string(Arrival arrival);  // "auto", "on" or "off"

// By group: the inner row that it ends before. None: all rows wait for all messages.
using MarginalGroups = std::vector<std::int64_t>;

// Groups of `graph`'s marginal rows that need about as many messages each; kMarginalGroups, some of
// which may be empty.
MarginalGroups marginal_groups(const LocalGraphView& graph);

// Calls visit(begin, end) for the rows of each group, the first of which begins with `central`.
template <typename Visit>
void for_each_group(const MarginalGroups& groups, std::int64_t central, const Visit& visit) {
  for (const std::int64_t end : groups) visit(std::exchange(central, end), end);
}

// [parts * groups]: how many messages of each part, the first ones, the groups up to this one need.
std::vector<std::int64_t> needed_messages(const LocalGraphView& graph,
                                          const LocalMatrixView& matrix,
                                          const MarginalGroups& groups);

}  // namespace atl
