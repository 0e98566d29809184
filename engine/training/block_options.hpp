// Options of training on blocks of the graph, one after the other, in place of all of it at once
// (docs/blocks.md).
#pragma once

#include <cstdint>
#include <string>

#include "engine/training/first_phase.hpp"

namespace atl {

// The nodes that stay together when they are dealt to blocks.
enum class BlockKind : std::uint8_t { kCommunities, kRandom };
const char* to_string(BlockKind kind);  // "communities", "random"

inline constexpr int kMostBlocks = 4096;

// How many blocks an epoch deals the nodes to; 0: its one step is on the whole graph.
struct BlockCount {
  int number = 0;
  bool automatic = false;  // by the size of the graph: blocks_for()

  bool operator==(const BlockCount&) const = default;
};
std::string to_string(const BlockCount& count);  // "32", "auto"
// The reverse; throws Error{kOption} for other texts.
BlockCount parse_block_count(const std::string& text);
// The number that `auto` stands for: blocks of 5,000 nodes, but at least 16 of them unless they
// would have fewer than 1,000, and at most 512, so that each can be dealt several communities.
// docs/blocks.md says why.
int blocks_for(std::int64_t nodes);

// The nodes that training sees: all, or those of some splits (docs/growing.md). The others, and
// their edges, are for evaluations alone.
enum class SeenNodes : std::uint8_t { kAll, kTrain, kTrainAndValid };
const char* to_string(SeenNodes nodes);  // "none" (are left out), "train", "valid"

struct BlockOptions {
  BlockCount count;
  BlockKind kind = BlockKind::kCommunities;
  PhaseEnd until;
  SeenNodes seen = SeenNodes::kAll;

  // Whether an epoch deals what training sees to several blocks.
  bool deals() const { return count != BlockCount(); }
  bool leaves_out() const { return seen != SeenNodes::kAll; }
  // Whether steps are on other graphs than the whole one: blocks, or the one block that is seen.
  bool any() const { return deals() || leaves_out(); }
  // The option that says so, as it was given: "--blocks 32".
  std::string option() const;
};

}  // namespace atl
