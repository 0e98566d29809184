// A transport of one rank without threads or MPI, for programs that no launcher started.
#pragma once

#include "engine/comm/transport.hpp"

namespace atl {

// Its abort() ends the process.
std::unique_ptr<Transport> make_world_of_one(double timeout_seconds);

}  // namespace atl
