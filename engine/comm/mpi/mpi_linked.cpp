// The MPI library that the program is linked with (ATOLL_MPI=link).
#include "engine/comm/mpi/mpi_facts.hpp"

namespace atl {

const MpiCalls& mpi_calls() { return *atoll_mpi_calls(); }

const MpiCalls* mpi_calls_in_use() noexcept { return atoll_mpi_calls(); }

MpiFacts find_mpi() { return {.version = short_mpi_version(mpi_calls())}; }

}  // namespace atl
