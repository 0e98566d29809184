// Which MPI libraries a program that brings none looks for, and where (ATOLL_MPI=runtime).
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace atl {

enum class MpiKind { kOpenMpi, kMpich };

const char* mpi_kind_name(MpiKind kind);

// Names under which libraries of the kind's binary interface are found: of Open MPI 4 and 5; of
// MPICH 3.1 and later and those that are compatible with it, among them Intel MPI and MVAPICH.
std::vector<std::string> mpi_library_names(MpiKind kind);

struct MpiSearch {
  std::vector<MpiKind> kinds;  // in this order
  std::string file = {};       // the only one to be tried; empty: any of those kinds
  std::string launcher = {};   // whose processes can only use `kinds`; empty: none is known
};

// Value of an environment variable; null if it is not set.
using EnvironmentReader = std::function<const char*(const char* name)>;

// ATOLL_MPI decides (openmpi, mpich, or the path of a library), else the launcher that started this
// process, else Open MPI comes first. Throws Error{kOption} for another ATOLL_MPI.
MpiSearch plan_mpi_search(const EnvironmentReader& variable);

// Folders of libraries that belong to the launchers on PATH: those beside their bin folders.
std::vector<std::string> mpi_library_folders(const std::string& path);

}  // namespace atl
