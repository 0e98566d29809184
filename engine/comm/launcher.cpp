// Reads what a launcher tells its processes through the environment.
#include <cstdlib>
#include <optional>
#include <string_view>

#include "base/numbers.hpp"
#include "engine/comm/transport.hpp"

namespace atl {

namespace {

// The variable as a non-negative number; nothing if it is absent or something else.
std::optional<int> read_number(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  return parse_number<int>(text, 0);
}

struct Variables {
  const char* rank;
  const char* size;
  const char* local_rank;
};

// mpirun first: it may itself run inside a Slurm job. Slurm's step variables, not the job's,
// because a batch script's own shell has a SLURM_PROCID and SLURM_NTASKS too.
constexpr Variables kLaunchers[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"},
};

}  // namespace

LauncherInfo launcher_info() {
  for (const Variables& launcher : kLaunchers) {
    const auto rank = read_number(launcher.rank);
    const auto size = read_number(launcher.size);
    if (!rank || !size || *rank >= *size) continue;
    auto local_rank = read_number(launcher.local_rank);
    if (!local_rank) local_rank = read_number("SLURM_LOCALID");
    return {*rank, *size, local_rank.value_or(0)};
  }
  return {};
}

bool launched_by_mpi() { return launcher_info().size > 1; }

}  // namespace atl
