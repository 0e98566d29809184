// Lists of jobs for the benchmark of schedules: drawn at random, with speeds that the simulator of
// epochs says, or read from a file.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "engine/placement/job_schedule.hpp"

namespace atl {

struct ScheduledList {
  std::vector<SchedulableJob> jobs;
  std::vector<ScheduledHost> hosts;
  std::shared_ptr<JobSpeeds> speeds;

  ScheduleSetting setting() const { return {jobs, hosts, *speeds}; }
};

struct ListRanges {
  int least_jobs = 4;
  int most_jobs = 20;
  int hosts = 4;
  int slots = 2;
};
// Trainings of all sizes, on hosts that are alike; how fast ranks and network cards are differs
// from list to list. All jobs arrive at once, or at random as often as keeps half of the slots, or
// all of them, busy. Equal arguments give the same list on every machine.
ScheduledList random_list(const ListRanges& ranges, std::uint64_t seed);

// JSON: {"hosts": [slots...], "jobs": [{"arrival_s", "hosts": [those that it may use], "epoch_s":
// [by ranks, from 1 on]}...]}: jobs of one epoch, each on one host. Throws Error{kInput}.
std::vector<ScheduledList> read_lists(const std::filesystem::path& path);

}  // namespace atl
