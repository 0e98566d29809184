// Facts about an MPI library that are told alike however it was found.
#pragma once

#include "engine/comm/mpi/mpi_calls.hpp"

namespace atl {

// The first line of what the library says, without its date and its build.
std::string short_mpi_version(const MpiCalls& calls);

}  // namespace atl
