// Training in stages: the layers of a model divided among the ranks (docs/stages.md).
#pragma once

#include <string>

namespace atl {

// How many stages there are: as many as ranks, if any.
struct StageCount {
  int number = 0;  // 0: none, each rank has all layers
  bool all = false;
  bool any() const { return all || number > 0; }
  bool operator==(const StageCount&) const = default;
};
std::string to_string(const StageCount& count);  // "4" or "all"
// The reverse. Throws Error{kOption} naming --stages and what is allowed.
StageCount parse_stage_count(const std::string& text);

inline constexpr int kMostChunks = 64;

struct StageOptions {
  StageCount count;
  int chunks = 16;     // of nodes, that flow through the stages
  bool stale = false;  // said by whoever knows that rows of later chunks are of the last epoch

  bool any() const { return count.any(); }
  // As it was given: "--stages 4".
  std::string option() const { return "--stages " + to_string(count); }
};

}  // namespace atl
