// For which ranks it costs less to compute rows of the first layer's output for another rank's
// nodes than to receive them.
#pragma once

#include "engine/placement/epoch_tasks.hpp"

namespace atl {

// By plan_recomputation: per receiving rank the pairs where the time of the messages alone exceeds
// that of computing their rows. The strategy's own recomputation doesn't count. Costs add up here,
// so it says nothing of what hides behind what; a simulation does.
Recomputation recomputation_by_cost(const EpochSetting& setting,
                                    std::span<const LayerStrategy> strategy);

// Seconds that `rank` computes for `rows` halo rows: by the first layer, and, where the second
// multiplies first, by that.
struct RecomputeSeconds {
  double first_layer = 0;
  double second_layer = 0;
};
RecomputeSeconds recompute_seconds(const Device& device, std::span<const LayerConfig> layers,
                                   bool root_weight, std::int64_t rows);

}  // namespace atl
