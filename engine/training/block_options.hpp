// Options of training on blocks of the graph, one after the other, in place of all of it at once
// (docs/blocks.md).
#pragma once

#include <cstdint>

#include "engine/training/first_phase.hpp"

namespace atl {

// The nodes that stay together when they are dealt to blocks.
enum class BlockKind : std::uint8_t { kCommunities, kRandom };
const char* to_string(BlockKind kind);  // "communities", "random"

inline constexpr int kMostBlocks = 4096;

struct BlockOptions {
  int count = 0;  // that an epoch deals the nodes to; 0: its one step is on the whole graph
  BlockKind kind = BlockKind::kCommunities;
  PhaseEnd until;

  bool any() const { return count > 0; }
};

}  // namespace atl
