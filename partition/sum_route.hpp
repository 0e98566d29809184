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

// Who decides on the route.
enum class SumChoice : std::uint8_t {
  kAuto,   // the hosts of ranks, if there are several that have as many ranks each
  kRanks,  // nobody: an all-reduce
};
const char* to_string(SumChoice choice);  // "auto" or "ranks"

// Groups of so many ranks that follow one another; with 1, or with all, an all-reduce.
SumRoute route_of_groups(int ranks, int each);

// "all-reduce", "hierarchical" or "parameter-server".
std::string name_of(const SumRoute& route);

Json to_json(const SumRoute& route);
// The reverse; null is an all-reduce. Throws Error{kInput} naming `place`, the value found and
// those allowed.
SumRoute parse_sum_route(const Json& json, int ranks, const std::filesystem::path& place);

}  // namespace atl
