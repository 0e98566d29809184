// The options with which `atoll schedule` runs what it has decided.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <vector>

#include "engine/placement/job_schedule.hpp"
#include "launch/jobs/job_list.hpp"
#include "launch/schedule/job_launch.hpp"

namespace atl {

struct ScheduleRunFlags {
  bool run = false;
  std::vector<std::string> hosts;  // empty: those of the topology
  LaunchSetting launch;            // without program and folder
};

// `flags` must live until the command's callback has run.
void add_schedule_run_flags(CLI::App& schedule, ScheduleRunFlags& flags);

// Where jobs may share hosts: warns of the first one that would take all of their cores.
void warn_of_threads(std::span<const ListedJob> jobs, std::span<const ScheduledHost> hosts);

// Gives the hosts of a topology the names of --hosts. Throws Error{kOption} if these are others in
// number, if one is there twice, or if with --run two are this machine.
void name_hosts(const ScheduleRunFlags& flags, std::vector<ScheduledHost>& hosts);

}  // namespace atl
