// Options of training on blocks of the graph, one after the other, in place of all of it at once
// (docs/blocks.md).
#pragma once

#include <cstdint>

namespace atl {

// The nodes that stay together when they are dealt to blocks.
enum class BlockKind : std::uint8_t { kCommunities, kRandom };
const char* to_string(BlockKind kind);  // "communities", "random"

inline constexpr int kMostBlocks = 4096;

struct BlockOptions {
  int count = 0;  // that an epoch deals the nodes to; 0: its one step is on the whole graph
  BlockKind kind = BlockKind::kCommunities;
  int until = 0;  // the last epoch that does; 0: there is none

  bool any() const { return count > 0; }
  bool train(int epoch) const { return any() && (until == 0 || epoch <= until); }
  // Whether the whole graph is for evaluation alone.
  bool only() const { return any() && until == 0; }
};

}  // namespace atl
