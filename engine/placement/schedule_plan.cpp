#include "engine/placement/schedule_plan.hpp"

#include <algorithm>

namespace atl {

namespace {

// One decision after a plan.
class PlanFollower {
 public:
  PlanFollower(const SchedulePlan& plan, const ScheduleMoment& moment, JobSpeeds& speeds,
               bool elastic)
      : plan_(plan),
        moment_(moment),
        speeds_(speeds),
        elastic_(elastic),
        free_(moment),
        targets_(moment.jobs.size()) {}

  JobTargets targets() && {
    for (int job = 0; job < std::ssize(moment_.states); ++job) {
      const JobState& state = moment_.states[job];
      if (state.placement && !(elastic_ && plan_.jobs[job].yields)) stay(job);
    }
    bool is_held = false;
    for (const int job : plan_.order) {
      const JobState::Phase phase = moment_.states[job].phase;
      if (targets_[job] || phase == JobState::Phase::kEnded) continue;
      if (phase == JobState::Phase::kRunning) {
        place_running(job);
      } else if (!is_held) {
        const bool can_start = phase == JobState::Phase::kWaiting && place_waiting(job);
        is_held = !can_start && plan_.jobs[job].holds;
      }
    }
    if (elastic_ && free_.total() > 0) grow();
    return std::move(targets_);
  }

 private:
  void stay(int job) {
    targets_[job] = moment_.states[job].placement;
    free_.keep(*targets_[job]);
  }

  void give(int job, JobPlacement placement) {
    free_.take(placement);
    targets_[job] = std::move(placement);
  }

  bool place_waiting(int job) {
    const SchedulePlan::Job& planned = plan_.jobs[job];
    std::optional<JobPlacement> placement =
        fastest_placement(job, {planned.least, planned.most}, free_, speeds_);
    if (!placement) return false;
    give(job, *std::move(placement));
    return true;
  }

  // Where it is, on fewer ranks, or nowhere.
  void place_running(int job) {
    const JobPlacement& here = *moment_.states[job].placement;
    if (free_.has_room(here)) {
      stay(job);
    } else if (std::optional<JobPlacement> placement =
                   fastest_placement(job, {moment_.jobs[job].least_ranks, here.ranks()}, free_,
                                     speeds_, StartsIn::kSlotsToCome)) {
      give(job, *std::move(placement));
    }
  }

  // Free slots go to running jobs that end earlier with them, a start and all.
  void grow() {
    for (const int job : plan_.order) {
      const JobState& state = moment_.states[job];
      if (!plan_.jobs[job].grows || !state.placement || targets_[job] != state.placement) continue;
      if (free_.total() == 0) return;
      const RankRange ranks{moment_.jobs[job].least_ranks, moment_.jobs[job].most_ranks};
      free_.give_back(*state.placement);
      std::optional<JobPlacement> faster =
          fastest_placement(job, ranks, free_, speeds_, StartsIn::kSlotsToCome);
      if (faster && remaining_s(moment_, speeds_, job, *faster) <
                        remaining_s(moment_, speeds_, job, *state.placement)) {
        give(job, *std::move(faster));
      } else {
        stay(job);
      }
    }
  }

  const SchedulePlan& plan_;
  const ScheduleMoment& moment_;
  JobSpeeds& speeds_;
  bool elastic_;
  FreeSlots free_;
  JobTargets targets_;
};

}  // namespace

JobTargets PlannedPolicy::decide(const ScheduleMoment& moment, JobSpeeds& speeds) {
  return PlanFollower(plan_, moment, speeds, elastic_).targets();
}

}  // namespace atl
