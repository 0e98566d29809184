// Cuts of graphs for simulated epochs: each is made once, however many jobs need it, or read where
// training has left it.
#pragma once

#include <map>
#include <set>
#include <string>
#include <tuple>

#include "engine/placement/cut_candidates.hpp"
#include "launch/schedule/scheduled_training.hpp"

namespace atl {

class CutTable {
 public:
  // The cut that training would have in so many parts. Valid as long as this. Throws Error{kOption}
  // for options by which the graph can't be cut so, Error{kInput} for files that are damaged.
  const CutCandidate& of(const ScheduledTraining& training, int parts);
  // Those that were made, not read.
  int made() const { return made_; }

 private:
  CutCandidate make(const ScheduledTraining& training, int parts);

  std::map<std::tuple<const Dataset*, std::string, int>, CutCandidate> known_;
  std::set<const Dataset*> checked_;
  int made_ = 0;
};

}  // namespace atl
