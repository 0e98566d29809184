// The one function of mpi_calls.cpp, the source that is compiled against an mpi.h. It stands in the
// program, or in a plug-in for each kind of MPI library.
#pragma once

#include "engine/comm/mpi_library.hpp"

extern "C" __attribute__((visibility("default"))) const atl::MpiCalls* atoll_mpi_calls();
