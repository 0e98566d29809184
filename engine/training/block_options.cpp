#include "engine/training/block_options.hpp"

namespace atl {

const char* to_string(BlockKind kind) {
  return kind == BlockKind::kCommunities ? "communities" : "random";
}

}  // namespace atl
