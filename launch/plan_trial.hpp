// Before a plan replaces the default in a run, a few real epochs of each are timed.
#pragma once

#include "launch/planned_job.hpp"

namespace atl {

// The job of `flags` by its plan, or, if `epochs` epochs of it took longer than without the plan,
// without it. 0 epochs: by its plan, untried. Collective. Throws what a RankJob throws.
PlannedJob tried_job(const TrainFlags& flags, int epochs, Transport& transport);

}  // namespace atl
