// How sums of gradients over all ranks travel: by hosts, or as a plan says (docs/placement.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json.hpp"

namespace atl {

// By default an all-reduce: every rank adds up a block of the values and sends it to all others.
struct SumRoute {
  // Hierarchical: ranks that talk fast among themselves. They add up first, then equal members of
  // all groups do, and the groups share the sums: a group sends every value once, not once per
  // member. All of one size, and every rank in one.
  std::vector<std::vector<int>> groups;
  // Parameter server: this rank adds up everything. -1: none.
  int server = -1;

  bool is_all_reduce() const { return groups.empty() && server < 0; }
  bool operator==(const SumRoute&) const = default;
};

// Where a route comes from.
enum class SumChoice : std::uint8_t {
  kAuto,   // the hosts of the ranks: see route_by_places()
  kRanks,  // not from hosts: it is an all-reduce, or that of a plan
};
const char* to_string(SumChoice choice);  // "auto" or "ranks"

// Consecutive ranks in groups of `each`; an all-reduce if that is 1 or all of them.
SumRoute route_of_groups(int ranks, int each);

// "all-reduce", "hierarchical" or "parameter-server".
std::string name_of(const SumRoute& route);

Json to_json(const SumRoute& route);
// The reverse; null is an all-reduce. Throws Error{kInput} naming `place`, the value found and
// those allowed.
SumRoute parse_sum_route(const Json& json, int ranks, const std::filesystem::path& place);

}  // namespace atl
