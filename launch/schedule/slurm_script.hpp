// A schedule as a script for a cluster that has a scheduler of its own: calls of sbatch in an
// order, with dependencies that keep it (docs/slurm.md).
#pragma once

#include <span>
#include <string>

#include "launch/jobs/job_list.hpp"
#include "launch/schedule/schedule_file.hpp"

namespace atl {

// A shell script that is also the batch script of its jobs. `jobs` are those of the file, each of
// which has one segment: the schedule must not be elastic. Jobs that differ in the seed alone and
// begin together on equally many hosts are one array. A job waits for those that had its slots
// before. Hosts are named only where they differ.
std::string slurm_script(const ScheduleFile& file, std::span<const ListedJob> jobs);

}  // namespace atl
