// Options of training on the labels of nodes that are new in a graph and of some of the old ones
// (docs/growing.md).
#pragma once

#include <cstdint>
#include <string>

namespace atl {

// How the old nodes are chosen whose labels are used again.
enum class ReplaySelect : std::uint8_t { kRandom, kDegree, kCover };
const char* to_string(ReplaySelect select);  // "random", "degree", "cover"

// How much each of them counts in the loss.
enum class ReplayWeights : std::uint8_t { kNone, kMatch };
const char* to_string(ReplayWeights weights);  // "none", "match"

// How many they are.
struct ReplayCount {
  static constexpr std::int64_t kAll = -1;
  std::int64_t nodes = kAll;

  bool operator==(const ReplayCount&) const = default;
};
std::string to_string(const ReplayCount& count);  // "500", "all"
// The reverse; throws Error{kOption} for other texts.
ReplayCount parse_replay_count(const std::string& text);

struct ReplayOptions {
  ReplayCount count;
  ReplaySelect select = ReplaySelect::kRandom;
  ReplayWeights weights = ReplayWeights::kNone;
  std::int64_t from = 0;  // id of the first new node; 0: the nodes of the warm start's dataset

  // Whether labels of old nodes are left out.
  bool any() const { return count != ReplayCount(); }
};

}  // namespace atl
