// The jobs of a list as a schedule sees them: what each of them trains, read and checked before
// anything is simulated or started.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "datasets/dataset.hpp"
#include "engine/placement/job_schedule.hpp"
#include "engine/training/options.hpp"
#include "launch/jobs/job_list.hpp"
#include "partition/partitioner.hpp"

namespace atl {

// Each of them is looked at for the end of each of them, often: 1000 take `search` half a minute,
// and 3000 the other policies.
inline constexpr std::size_t kMostScheduledJobs = 1000;

// A training that several jobs may have: those that differ in seed, length or learning rate alone
// take the same time for an epoch.
struct ScheduledTraining {
  std::shared_ptr<const Dataset> dataset;
  TrainOptions options;
  PartitionOptions partition;
  Json identity;  // all that the time of an epoch depends on, but for the machine
};

struct ScheduledTrainings {
  struct Job {
    std::size_t training = 0;  // index into `trainings`
    std::int64_t epochs = 1;   // or the most of them
    std::int64_t evaluations = 1;
    // A warning for its user, where its epochs are others than those that are simulated.
    std::string doubt = {};
  };
  std::vector<ScheduledTraining> trainings;
  std::vector<Job> jobs;  // as in the list
};
// Reads the options of all jobs as `atoll train` would, and opens their datasets. list: the file,
// for messages. Throws Error{kOption} for options that train refuses or that a schedule decides
// itself and for more than kMostScheduledJobs, Error{kInput} for datasets that can't be trained on.
ScheduledTrainings read_trainings(std::span<const ListedJob> jobs,
                                  const std::filesystem::path& list);

// For the policies. epochs: of the job; slots: of all hosts together.
SchedulableJob schedulable_job(const ListedJob& job, std::int64_t epochs, int slots);
// The same of all jobs of a list. slots: of all hosts together. Throws Error{kOption} for a job
// that needs more.
std::vector<SchedulableJob> schedulable_jobs(std::span<const ListedJob> jobs,
                                             const ScheduledTrainings& trainings, int slots,
                                             const std::filesystem::path& list);

}  // namespace atl
