// Bounds that no schedule can fall below.
#pragma once

#include "engine/placement/job_schedule.hpp"

namespace atl {

// For all jobs that have not ended; speeds are asked for placements on hosts without other jobs.
class CompletionBound {
 public:
  // setting: its jobs, hosts and speeds, and what a start takes.
  explicit CompletionBound(const ScheduleSetting& setting);

  // The least sum of priority times completion, from a moment on.
  double weighted_sum_s(std::span<const JobState> states, double now_s) const;

 private:
  // A job on one machine that does the work of all slots.
  struct Task {
    double ready_s = 0;
    double left_s = 0;
    double weight = 0;
    double all_s = 0;        // what is left at first
    double alone_end_s = 0;  // on its fastest ranks, from when it is ready
  };
  double sum_of_shared_ends(std::vector<Task> tasks) const;
  double sum_of_ends(std::vector<Task> tasks) const;
  double sum_of_busy_times(std::vector<Task> tasks) const;

  std::span<const SchedulableJob> jobs_;
  bool is_weighted_ = false;
  std::vector<double> fastest_s_;  // of an epoch, by job
  std::vector<double> work_s_;     // the least rank-seconds of an epoch, by all slots
  double slots_ = 0;
};

}  // namespace atl
