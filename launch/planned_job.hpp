// A training command line's requests once --plan has been read.
#pragma once

#include "engine/comm/transport.hpp"
#include "launch/train_flags.hpp"
#include "partition/plan.hpp"

namespace atl {

struct PlannedJob {
  TrainOptions options;
  PartitionOptions partition;
};

// The options of `flags`, without its plan and what only that needs.
PlannedJob unplanned_job(const TrainFlags& flags);
// The options of `flags`, changed by its plan if it names one. Collective. Throws Error{kInput} on
// all ranks if the plan is damaged or made for another graph, number of ranks or model.
PlannedJob planned_job(const TrainFlags& flags, Transport& transport);
// Puts what a plan decides into the job of `flags`.
void follow_plan(const Plan& plan, const TrainFlags& flags, PlannedJob& job);

}  // namespace atl
