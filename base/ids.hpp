// Node ids as two distinct types, so that an id over the graph and an id inside a rank never mix
// silently.
#pragma once

#include <cstdint>

namespace atl {

enum class GlobalId : std::int64_t {};  // node of the whole graph, 0 .. N-1
enum class LocalId : std::int32_t {};   // row of one rank: central, marginal, then halo rows

constexpr std::int64_t to_index(GlobalId id) { return static_cast<std::int64_t>(id); }
constexpr std::int32_t to_index(LocalId id) { return static_cast<std::int32_t>(id); }

}  // namespace atl
