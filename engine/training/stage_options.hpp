// Training in stages: the layers of a model divided among the ranks (docs/stages.md).
#pragma once

#include <string>
#include <vector>

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
inline constexpr int kFirstStaleEpoch = 2;  // the first one that has a last one

struct StageOptions {
  StageCount count;
  int chunks = 32;     // of nodes, that flow through the stages
  bool stale = false;  // said by whoever knows that rows of later chunks are of the last epoch
  // The first epoch that reads these. Weights change most in the epochs before, which read rows of
  // their own: each layer is computed for all nodes before the next one.
  int stale_from = 6;
  // By stage, as a plan has it; empty: by counted work.
  std::vector<int> first_layer = {};
  // A plan says whether there are stages, and all of the above but `stale`.
  bool by_plan = false;

  bool any() const { return count.any(); }
  // As it was given: "--stages 4".
  std::string option() const { return "--stages " + to_string(count); }
};

}  // namespace atl
