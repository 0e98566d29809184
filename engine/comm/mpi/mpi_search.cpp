#include "engine/comm/mpi/mpi_search.hpp"

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "base/error.hpp"

namespace atl {

namespace fs = std::filesystem;

const char* mpi_kind_name(MpiKind kind) { return kind == MpiKind::kOpenMpi ? "Open MPI" : "MPICH"; }

std::vector<std::string> mpi_library_names(MpiKind kind) {
  if (kind == MpiKind::kOpenMpi) return {"libmpi.so.40"};
  // Debian's name, and the one of everybody else.
  return {"libmpich.so.12", "libmpi.so.12"};
}

MpiSearch plan_mpi_search(const EnvironmentReader& variable) {
  const std::vector<MpiKind> both = {MpiKind::kOpenMpi, MpiKind::kMpich};
  const char* const chosen = variable("ATOLL_MPI");
  const std::string choice = chosen == nullptr ? "" : chosen;
  if (choice == "openmpi") return {.kinds = {MpiKind::kOpenMpi}};
  if (choice == "mpich") return {.kinds = {MpiKind::kMpich}};
  if (choice.find('/') != std::string::npos) return {.kinds = both, .file = choice};
  if (!choice.empty()) {
    fail_option(
        "ATOLL_MPI is '{}'; allowed are openmpi, mpich, and the path of a library of MPI, as in "
        "/opt/mpi/lib/libmpi.so.40",
        choice);
  }
  // See launcher.cpp for the variables.
  if (variable("OMPI_COMM_WORLD_SIZE") != nullptr) {
    return {.kinds = {MpiKind::kOpenMpi}, .launcher = "Open MPI's mpirun"};
  }
  if (variable("PMI_SIZE") != nullptr) {
    // Slurm's PMI serves builds of either; only Hydra, MPICH's own launcher, serves nobody else.
    const std::vector<MpiKind> order = {MpiKind::kMpich, MpiKind::kOpenMpi};
    if (variable("SLURM_STEP_NUM_TASKS") != nullptr && variable("MPI_LOCALRANKID") == nullptr) {
      return {.kinds = order};
    }
    return {.kinds = {MpiKind::kMpich}, .launcher = "MPICH's mpiexec"};
  }
  return {.kinds = both};
}

std::vector<std::string> mpi_library_folders(const std::string& path) {
  std::vector<std::string> found;
  const auto add = [&](const fs::path& program) {
    const fs::path prefix = program.parent_path().parent_path();
    for (const char* const name : {"lib", "lib64"}) {
      const std::string folder = (prefix / name).string();
      std::error_code ignored;
      if (!fs::is_directory(folder, ignored) || std::ranges::count(found, folder) > 0) continue;
      found.push_back(folder);
    }
  };
  std::istringstream folders(path);
  std::string folder;
  while (std::getline(folders, folder, ':')) {
    for (const char* const name : {"mpirun", "mpiexec"}) {
      const fs::path program = fs::path(folder) / name;
      std::error_code failed;
      if (folder.empty() || !fs::exists(program, failed)) continue;
      add(program);
      // A link to where the launcher really is.
      const fs::path real = fs::canonical(program, failed);
      if (!failed) add(real);
    }
  }
  return found;
}

}  // namespace atl
