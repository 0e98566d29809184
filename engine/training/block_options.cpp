#include "engine/training/block_options.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/numbers.hpp"

namespace atl {

namespace {

constexpr const char* kAutomatic = "auto";

}  // namespace

const char* to_string(BlockKind kind) {
  return kind == BlockKind::kCommunities ? "communities" : "random";
}

const char* to_string(SeenNodes nodes) {
  return nodes == SeenNodes::kAll ? "none" : nodes == SeenNodes::kTrain ? "train" : "valid";
}

std::string BlockOptions::option() const {
  return deals() ? "--blocks " + to_string(count) : std::string("--inductive ") + to_string(seen);
}

std::string to_string(const BlockCount& count) {
  return count.automatic ? kAutomatic : std::to_string(count.number);
}

BlockCount parse_block_count(const std::string& text) {
  if (text == kAutomatic) return {.automatic = true};
  const auto number = parse_number<int>(text, 0, kMostBlocks);
  if (!number) {
    fail_option("--blocks {}: allowed are {}, whole numbers from 2 to {}, and 0", text, kAutomatic,
                kMostBlocks);
  }
  return {.number = *number};
}

int blocks_for(std::int64_t nodes) {
  constexpr std::int64_t kNodes = 5000;
  constexpr std::int64_t kFewestNodes = 1000;
  constexpr std::int64_t kFewest = 16;
  constexpr std::int64_t kMost = 512;
  const std::int64_t blocks = std::max(nodes / kNodes, std::min(nodes / kFewestNodes, kFewest));
  return static_cast<int>(std::clamp<std::int64_t>(blocks, 2, kMost));
}

}  // namespace atl
