// What the ranks of one host share: its cores and its memory.
#pragma once

#include <cstdint>

#include "engine/comm/transport.hpp"

namespace atl {

// Cores this rank is allowed to run on, divided among the ranks of this host with the same
// allowance (a launcher may have bound each rank to cores of its own); at least 1. Collective.
int cores_per_rank(Transport& transport);

// Throws Error{kMemory} on every rank, naming host, need, available and missing bytes, if the ranks
// of some host together need more than it has available. Collective.
void require_host_memory(Transport& transport, std::int64_t bytes_needed);

}  // namespace atl
