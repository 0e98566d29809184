// Questions that JobSpeeds is asked often: answers that are kept, and network cards that several
// jobs share.
#pragma once

#include <span>
#include <vector>

#include "engine/placement/job_schedule.hpp"

namespace atl {

// Asks `speeds` once per job, ranks per host and kinds of hosts. `speeds` must outlive it.
class KnownSpeeds final : public JobSpeeds {
 public:
  KnownSpeeds(JobSpeeds& speeds, std::span<const ScheduledHost> hosts);
  double epoch_s(int job, const JobPlacement& placement) override;
  std::vector<double> card_shares(int job, const JobPlacement& placement) override;

 private:
  struct Known {
    double epoch_s = -1;  // not asked yet
    bool has_shares = false;
    std::vector<double> shares = {};
  };
  Known& known(int job, const JobPlacement& placement);

  JobSpeeds& speeds_;
  std::vector<int> kinds_;  // by host, numbered from 0
  int kind_count_ = 0;
  int most_slots_ = 0;
  // Sequences of kinds have numbers: that of a sequence and one more kind is in
  // longer_[number * kind_count_ + kind], -1: none yet.
  std::vector<int> longer_;
  std::vector<std::vector<Known>> known_;  // by job; [sequence * (most_slots_ + 1) + ranks]
};

// The cards that a running job fills.
struct CardUse {
  std::span<const int> hosts;
  std::span<const double> shares;  // by host
};
// The rates of jobs that run at the same time, as shares of those that they have alone: max-min
// fair shares of the cards that they fill (of several cards by the one that a job fills most:
// dominant resource fairness, Ghodsi et al. 2011).
std::vector<double> fair_rates(std::span<const CardUse> uses, int hosts);

}  // namespace atl
