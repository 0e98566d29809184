// Which ranks share a host, and whether what they need fits into it.
#pragma once

#include <cstdint>

#include "engine/comm/transport.hpp"

namespace atl {

// Ranks of the job that run on this host, this one included. Collective.
int ranks_on_this_host(Transport& transport);

// Throws Error{kMemory} on every rank, naming host, need, available and missing bytes, if the ranks
// of some host together need more than it has available. Collective.
void require_host_memory(Transport& transport, std::int64_t bytes_needed);

}  // namespace atl
