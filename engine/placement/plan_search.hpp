// From graph, model and machine to a plan: cuts, searches, explains.
#pragma once

#include "engine/placement/plan_space.hpp"
#include "engine/plan/plan.hpp"

namespace atl {

struct PlanRequest {
  std::string search = "auto";  // of plan_searches()
  SearchOptions options;
};
std::vector<std::string> plan_searches();  // "auto", "none" and search_strategies()

// "auto" looks at every choice where there are few, else it is greedy; "none" only simulates what
// training does without a plan. The best may lack memory.
SearchResult find_plan(PlanSpace& space, const PlanRequest& request);
// Throws Error{kMemory} if a plan that takes this lacks memory.
void require_memory(const PlanCost& cost);

// Says of a plan what an epoch takes without it, and how much memory that lacks.
void set_default(Plan& plan, const PlanCost& cost);

// Says of a plan what its epochs send and wait for, and how long they take at least. times: an
// epoch of `steps` takes so many times as long as one of these.
void describe_epochs(Plan& plan, const Topology& topology, std::span<const SimulatedEpoch> epochs,
                     const ExpectedMessages& expected, int steps = 1, double times = 1,
                     double network_speed = 1);

// The chosen plan. Plan::search says how it was found, what each decision saves and what the epoch
// spends its time on. dataset, dataset_checksum and model are left to the caller.
Plan make_plan(PlanSpace& space, const Topology& topology, const PlanRequest& request,
               const SearchResult& found);

}  // namespace atl
