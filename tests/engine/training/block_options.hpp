// Options of short runs on blocks.
#pragma once

#include <string>

#include "tests/engine/training/example_runs.hpp"

namespace atl {

inline TrainOptions block_options(const std::string& model, int blocks,
                                  BlockKind kind = BlockKind::kCommunities) {
  TrainOptions options = small_options();
  options.model.kind = model;
  options.blocks.count.number = blocks;
  options.blocks.kind = kind;
  return options;
}

}  // namespace atl
