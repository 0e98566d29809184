// A schedule as it is simulated: time passes from one event to the next, and a policy is asked in
// between.
#pragma once

#include <optional>
#include <vector>

#include "engine/placement/job_speeds.hpp"
#include "engine/placement/schedule_progress.hpp"

namespace atl {

// Copies go on from where the first one is. What the setting refers to must outlive it.
class ScheduleRun {
 public:
  enum class Record : std::uint8_t { kSegments, kNothing };
  explicit ScheduleRun(const ScheduleSetting& setting, Record record = Record::kSegments);

  // Lets time pass until a policy must be asked. False: it need not be asked again, because all
  // jobs have ended or nothing will happen any more.
  bool advance();
  // Now, for the policy that is asked.
  ScheduleMoment moment() const { return progress_.moment(setting_.jobs, now_s_); }
  void follow(JobTargets targets);

  bool is_over() const { return open_ == 0; }
  double now_s() const { return now_s_; }
  const ScheduleSetting& setting() const { return setting_; }
  // The sum of priority times completion of the jobs that have ended since it began.
  double weighted_sum_s() const { return weighted_sum_s_; }
  // Throws Error{kOption} naming a job that has not ended.
  JobSchedule schedule() const;

 private:
  // A running job, and what it is doing.
  struct Stretch {
    int job = 0;
    double epoch_s = 0;
    double rate = 1;
    double stop_at = 0;  // epochs that are left when it is over
    std::vector<double> shares = {};
    double from_s = 0;
    double epochs_left_before = 0;
  };

  void take_arrivals();
  void start_what_can();
  // False: nothing will happen.
  bool step();
  double seconds_to(const Stretch& stretch) const;
  void pass(double seconds);
  void settle_stretches();
  void take_host_events();
  void share_cards();
  double stop_place(int job) const;
  // Ends the stretch of that number.
  void close(std::size_t k);
  Stretch stretch_of(int job) const;

  ScheduleSetting setting_;
  Record record_;
  ScheduleProgress progress_;
  double now_s_ = 0;
  std::vector<int> arrivals_;  // jobs still to come, the next one last
  std::size_t next_event_ = 0;
  std::vector<Stretch> stretches_;  // of running jobs
  bool is_due_ = true;              // a policy must be asked
  bool are_rates_stale_ = true;
  int open_ = 0;  // jobs that have not ended
  double weighted_sum_s_ = 0;
  JobSchedule schedule_;
};

// Throws Error{kOption} naming a job that no placement can hold, were no host lost.
void check_jobs_fit(const ScheduleSetting& setting);
// The weighted mean completion of a simulated schedule; infinity where some job never ends.
double simulated_mean_s(const ScheduleSetting& setting, JobPolicy& policy);
// The sum of all jobs' priorities.
double sum_of_priorities(std::span<const SchedulableJob> jobs);

}  // namespace atl
