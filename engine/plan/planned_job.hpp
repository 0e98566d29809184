// A training run that follows a plan.
#pragma once

#include "engine/comm/transport.hpp"
#include "engine/plan/plan.hpp"
#include "engine/training/options.hpp"

namespace atl {

// The computation of a run, and its cut.
struct TrainJob {
  TrainOptions options;
  PartitionOptions partition;
};

// Which plan a run follows.
struct PlanChoice {
  std::filesystem::path file;     // plan.json
  std::filesystem::path dataset;  // folder
  std::string parts_file;         // the one that the plan's cut is read from; empty: none
};

// `options` with the exchange mode of the plan, if it has one.
TrainOptions with_exchange_of(const Plan& plan, TrainOptions options);
// Puts what the plan decides into the job.
void follow_plan(const Plan& plan, const PlanChoice& choice, TrainJob& job);
// `asked` as the plan changes it; or as it is but for the plan's exchange mode, if `trial_epochs`
// real epochs of the planned job take longer (0: untried). Collective. Throws Error{kInput} on all
// ranks if the plan is damaged or made for another graph, number of ranks, model or file of parts,
// and what a RankJob throws.
TrainJob planned_job(const TrainJob& asked, const PlanChoice& choice, int trial_epochs,
                     Transport& transport);

}  // namespace atl
