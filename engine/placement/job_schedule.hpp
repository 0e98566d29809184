// Which jobs of a list train on which hosts of a cluster, and when: the rules that a schedule
// keeps, the policies that decide, and the time that all of it takes, simulated before anything
// runs. A schedule that is run for real asks the same policies and keeps the same rules.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace atl {

// Where a job's ranks are: as many on each of its hosts.
struct JobPlacement {
  std::vector<int> hosts;  // ascending
  int ranks_per_host = 1;

  int ranks() const { return static_cast<int>(hosts.size()) * ranks_per_host; }
  bool operator==(const JobPlacement&) const = default;
};

struct SchedulableJob {
  std::string name;
  double arrival_s = 0;
  std::int64_t epochs = 1;  // or the most of them, where a target accuracy may end it before
  int least_ranks = 1;
  int most_ranks = 1;
  double priority = 1;  // its weight in the mean completion time
  double start_s = 0;   // of each start, before its first epoch there
};

// The seconds of an epoch where a job can't train, for want of memory or because its model can't be
// divided so.
inline constexpr double kCantTrain = std::numeric_limits<double>::infinity();
// The end or completion of a job that has not ended.
inline constexpr double kNever = std::numeric_limits<double>::infinity();

// How fast jobs are: of a simulator, a table, or a formula.
class JobSpeeds {
 public:
  virtual ~JobSpeeds() = default;
  // Seconds of an epoch with no other job on its hosts' cards, or kCantTrain.
  virtual double epoch_s(int job, const JobPlacement& placement) = 0;
  // The share of the card of placement.hosts[i] that it fills meanwhile, of the direction that is
  // filled more, 0 to 1.
  virtual std::vector<double> card_shares(int job, const JobPlacement& placement) = 0;
};

struct ScheduledHost {
  std::string name;
  int slots = 1;  // ranks that it has room for
  int kind = 0;   // hosts of one kind are alike for every job
  bool is_lost = false;
};

// A schedule as it stands at a moment.
struct JobState {
  enum class Phase : std::uint8_t { kNotArrived, kWaiting, kRunning, kEnded };
  Phase phase = Phase::kNotArrived;
  double epochs_left = 0;
  std::optional<JobPlacement> placement = std::nullopt;  // while it runs
  double start_left_s = 0;                               // of its start, what is still to come
};
struct ScheduleMoment {
  double now_s = 0;
  std::span<const SchedulableJob> jobs;
  std::span<const JobState> states;  // by job
  std::span<const ScheduledHost> hosts;
};

// Where each job should run from now on; none: nowhere for now. Hosts have room for all of them
// together. A job whose placement changes ends after the epoch that it is in and goes on in the new
// one once that is free.
using JobTargets = std::vector<std::optional<JobPlacement>>;

// Asked when a job arrives or ends, and when a host is lost or back. Jobs that have not arrived are
// known to those policies alone that say so.
class JobPolicy {
 public:
  virtual ~JobPolicy() = default;
  virtual JobTargets decide(const ScheduleMoment& moment, JobSpeeds& speeds) = 0;
};

// "fifo", "srpt", "marginal", "search".
std::vector<std::string> job_policies();
struct JobPolicyOptions {
  // Whether a job's ranks may change once it runs, and whether it may have to wait again.
  bool elastic = true;
  // The others are for search alone.
  std::uint64_t seed = 1;
  std::int64_t evaluations = 2000;  // schedules that it may simulate for a decision
  bool knows_arrivals = true;       // it plans for jobs of the list that have not arrived, too
};
// fifo: in order of arrival, each with its most ranks, none before those in front of it; never
// elastic. srpt: the shortest remaining time first, each with the ranks that make it fastest.
// marginal: the least ranks for each, then the next ranks to the job whose remaining time falls
// most for each of them. search: the best schedule, as simulated, that Markov chain Monte Carlo
// finds, never worse than the other three. docs/schedule.md has the formulas. Throws Error{kOption}
// listing the names.
std::unique_ptr<JobPolicy> make_job_policy(const std::string& name,
                                           const JobPolicyOptions& options);

// A stretch of a job in one placement.
struct JobSegment {
  int job = 0;
  JobPlacement placement;
  double from_s = 0;
  double to_s = 0;
  double first_epoch = 0;  // epochs done before it
  double last_epoch = 0;   // and after it
};

struct JobSchedule {
  std::vector<JobSegment> segments;  // by time
  std::vector<double> completion_s;  // by job: from its arrival to its end
  double mean_completion_s = 0;      // weighted by priority
  double makespan_s = 0;
};

// A host that is lost, or back, at some time.
struct HostEvent {
  double at_s = 0;
  int host = 0;
  bool is_lost = true;
};

struct ScheduleSetting {
  std::span<const SchedulableJob> jobs;
  std::span<const ScheduledHost> hosts;
  JobSpeeds& speeds;
  // Where it begins: by job, what is left of it and where it runs; empty: all of it, nowhere.
  std::span<const JobState> states = {};
  double now_s = 0;
  // By time, none before now_s. Jobs on a lost host lose the epoch that they are in.
  std::span<const HostEvent> host_events = {};
};
// Throws Error{kOption} naming a job that no placement can hold, or none on the hosts that are
// left.
JobSchedule simulate_schedule(const ScheduleSetting& setting, JobPolicy& policy);

// No schedule has a smaller mean completion. The jobs with most work have the cluster for
// themselves; of the others, work of the best rank-seconds is divided without loss (preemptive SRPT
// on one machine, Schrage 1968; with several priorities mean busy times, Goemans et al. 2002). Of
// all numbers of jobs that are alone, the one that bounds most.
// Throws Error{kOption} as simulate_schedule() does.
double completion_bound_s(const ScheduleSetting& setting);

}  // namespace atl
