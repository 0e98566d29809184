// How many ranks hold a part of the graph together, as a decision above those of a plan space: each
// number has cuts and programs of its own, so each has a space, and the best of their plans counts
// (docs/groups.md).
#pragma once

#include <map>
#include <memory>
#include <optional>

#include "engine/placement/plan_search.hpp"
#include "engine/placement/stage_plan.hpp"

namespace atl {

// Where its ranks are: &Device::host or &Device::island of each.
std::vector<std::int64_t> places_of(const Topology& topology, int Device::*place);
// Numbers worth trying, ascending: 1, the ranks of each island, those of each host, all.
std::vector<int> group_sizes(const Topology& topology);
// The machine as a cut for groups of so many ranks sees it: each group as one rank, as fast as its
// ranks together.
Topology group_topology(const Topology& topology, int ranks_per_part);

// Plans with one number of ranks that hold a part together.
class GroupPlans {
 public:
  struct Setting {
    std::vector<CutCandidate> cuts;  // parts of which each is on so many ranks
    std::vector<int> bits;
    PhaseCorrections corrections;
    int start_bits = 32;
    PlannedMessages messages;
  };
  // `topology` must outlive it. model: of one rank alone. Throws Error{kOption} if ranks can't
  // share parts of this model.
  GroupPlans(const Topology& topology, ModelConfig model, int ranks_per_part, Setting setting);

  int ranks_per_part() const { return model_->column_share.ranks; }
  PlanSpace& space() { return *space_; }
  const SearchResult& found() const { return found_; }
  void search(const PlanRequest& request) { found_ = find_plan(*space_, request); }

 private:
  // The space refers to both.
  std::unique_ptr<ModelConfig> model_;
  std::unique_ptr<std::vector<CutCandidate>> cuts_;
  std::unique_ptr<PlanSpace> space_;
  SearchResult found_;
};

// Layers in stages, where these may be chosen beside the plans of groups.
struct StageChoice {
  std::optional<StagePlan> found;
  std::string refused;  // why there are none; empty: nobody asked for them
  // The cut, chunks and first stale epoch that training takes them with.
  PartitionOptions partition;
  int chunks = 0;
  int stale_from = 0;
  int widths = 0;         // of messages, among which the best ones were found
  bool is_fixed = false;  // they are chosen whatever the others take

  bool any() const { return found || !refused.empty(); }
  // Than a plan without them.
  bool are_better_than(const PlanCost& others) const;
};

struct BestPlan {
  std::size_t place = 0;  // among all, unless it is in stages
  Plan plan;
};
// The best of all these plans; its `search` says what the others take. The first one is what
// training does without a plan. refused: other numbers of ranks, and why they are not among these.
// Throws Error{kMemory} if no plan fits.
BestPlan best_plan(std::span<GroupPlans> all, const Topology& topology, const PlanRequest& request,
                   const std::map<int, std::string>& refused = {}, const StageChoice& stages = {});

}  // namespace atl
