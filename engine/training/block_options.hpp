// Options of training on blocks of the graph, one after the other, in place of all of it at once
// (docs/blocks.md).
#pragma once

#include <cstdint>
#include <string>

namespace atl {

// The nodes that stay together when they are dealt to blocks.
enum class BlockKind : std::uint8_t { kCommunities, kRandom };
const char* to_string(BlockKind kind);  // "communities", "random"

inline constexpr int kMostBlocks = 4096;

// The last epoch on blocks.
struct BlocksUntil {
  int epoch = 0;             // 0: there is none, or it is not known beforehand
  bool by_accuracy = false;  // the one whose evaluation shows that the valid metric has stalled

  bool operator==(const BlocksUntil&) const = default;
};
std::string to_string(const BlocksUntil& until);  // "20", "accuracy"
// The reverse; throws Error{kOption} for other texts.
BlocksUntil parse_blocks_until(const std::string& text);

struct BlockOptions {
  int count = 0;  // that an epoch deals the nodes to; 0: its one step is on the whole graph
  BlockKind kind = BlockKind::kCommunities;
  BlocksUntil until;
  int patience = 3;       // by accuracy: evaluations without a better valid metric that end blocks
  double rate_after = 0;  // learning rate of the epochs that follow; 0: the same

  bool any() const { return count > 0; }
  // Whether epochs on the whole graph follow.
  bool end() const { return until.epoch > 0 || until.by_accuracy; }
  // Whether the whole graph is for evaluation alone.
  bool only() const { return any() && !end(); }
};

}  // namespace atl
