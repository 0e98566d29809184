// Trades time for memory: values of the forward pass are dropped, and computed again when backward
// comes to them (Chen et al. 2016).
#pragma once

#include <vector>

#include "engine/program/program.hpp"

namespace atl {

// Which layers drop what they compute. Layers are cut into runs, the last `last_run` of them being
// one that keeps everything; each run before it is half a layer longer than the next, rounded down:
// when its values are computed again, one run's first value less is kept, and a layer has two.
struct Dropping {
  int last_run = 0;  // layers; 0: nothing is dropped
  // Results of aggregates are kept, so no messages travel again.
  bool keeps_aggregates = false;

  bool any() const { return last_run > 0; }
  bool operator==(const Dropping&) const = default;
};

// By layer: which run it is in, the last one being number 0.
std::vector<int> runs_of(const Dropping& dropping, int layers);

// Puts before the backward half of each run the operations that make what it reads of the run's
// forward half, so that nothing of it has to be kept but what other runs read. The numbers stay:
// dropout is keyed, and statistics of batch norms are kept. Comes after differentiate(), fuse() and
// compute_halo_rows().
void drop_values(Program& program, const Dropping& dropping);

}  // namespace atl
