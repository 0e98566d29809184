// For which ranks it costs less to compute rows of the first layer's output for another rank's
// nodes than to receive them.
#pragma once

#include "engine/placement/epoch_cost.hpp"

namespace atl {

// The pairs of ranks where the time of the messages alone exceeds that of computing their rows. The
// layers' own recomputation doesn't count. Costs add up here, so it says nothing of what hides
// behind what; a simulation does. `programs`: of the setting's model and ranks.
Recomputation recomputation_by_cost(const EpochSetting& setting, ProgramsByOrder& programs,
                                    std::span<const LayerPlan> layers);

// Seconds that `device` computes for `rows` halo rows; programs: of a model that recomputes.
double computing_halo_seconds(const TrainingPrograms& programs, const Device& device,
                              std::int64_t rows);

}  // namespace atl
