// The resources that the ranks of one host share: its cores, its memory and its devices.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "engine/comm/transport.hpp"
#include "kernels/backend.hpp"
#include "partition/sum_route.hpp"

namespace atl {

// Cores this rank is allowed to run on, no more than its control groups' quota of processor time
// (a container's, say) keeps busy, divided among the ranks of this host with the same
// allowance (a launcher may have bound each rank to cores of its own); at least 1. Collective.
int cores_per_rank(Transport& transport);

// A number for the host of each rank, the same for ranks that share one. Collective.
std::vector<std::int64_t> hosts_of_ranks(Transport& transport);

// See route_by_places(). Collective.
SumRoute sum_route_of_hosts(Transport& transport);

// How many lower ranks of this host use a device: which of its devices is this rank's. Collective.
int device_rank_on_host(Transport& transport, bool uses_device);

// The memory that was asked for does not fit: known on all ranks before any of it was allocated.
class TooLittleMemory : public Error {
 public:
  explicit TooLittleMemory(const std::string& message) : Error(ErrorKind::kMemory, message) {}
};

// Throws TooLittleMemory on every rank, naming place, need, available and missing bytes, if the
// ranks that share some host's or device's memory together need more than it has available.
// Collective.
void require_memory(Transport& transport, Backend& backend, std::int64_t bytes_needed);
// The same of pinned memory of the hosts, whatever the ranks compute on. Collective.
void require_pinned_memory(Transport& transport, std::int64_t bytes_needed);
// True on every rank if that would not throw. Collective.
bool has_pinned_memory(Transport& transport, std::int64_t bytes_needed);

}  // namespace atl
