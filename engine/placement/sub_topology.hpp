// The machine that a job of a schedule has: some hosts of a cluster, and some ranks on each.
#pragma once

#include <vector>

#include "engine/placement/job_schedule.hpp"
#include "engine/placement/topology.hpp"

namespace atl {

// The hosts of the file, in its order, with a slot for each of their ranks. Hosts are of one kind
// if the machine stays the same, as exactly as rates are known, when they change places.
std::vector<ScheduledHost> scheduled_hosts(const Topology& topology);

// The first ranks of each host of the placement, host by host in its order, with the cards and
// links that these have. Islands are numbered anew.
Topology sub_topology(const Topology& topology, const JobPlacement& placement);

}  // namespace atl
