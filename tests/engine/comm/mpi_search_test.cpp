#include "engine/comm/mpi/mpi_search.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "base/error.hpp"

namespace atl {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

MpiSearch plan_with(const std::map<std::string, std::string>& variables) {
  return plan_mpi_search([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(MpiSearch, LaunchersDecideWhatTheirProcessesUse) {
  const MpiSearch open_mpi = plan_with({{"OMPI_COMM_WORLD_SIZE", "2"}, {"PMI_SIZE", "2"}});
  EXPECT_THAT(open_mpi.kinds, ElementsAre(MpiKind::kOpenMpi));
  EXPECT_EQ(open_mpi.launcher, "Open MPI's mpirun");
  const MpiSearch mpich = plan_with({{"PMI_SIZE", "2"}});
  EXPECT_THAT(mpich.kinds, ElementsAre(MpiKind::kMpich));
  EXPECT_EQ(mpich.launcher, "MPICH's mpiexec");
  // Hydra inside a job of Slurm.
  EXPECT_THAT(
      plan_with({{"PMI_SIZE", "2"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"MPI_LOCALRANKID", "0"}}).kinds,
      ElementsAre(MpiKind::kMpich));
}

TEST(MpiSearch, WithoutAWordFromThemBothAreTried) {
  EXPECT_THAT(plan_with({}).kinds, ElementsAre(MpiKind::kOpenMpi, MpiKind::kMpich));
  EXPECT_EQ(plan_with({}).launcher, "");
  EXPECT_THAT(plan_with({{"PMI_SIZE", "2"}, {"SLURM_STEP_NUM_TASKS", "2"}}).kinds,
              ElementsAre(MpiKind::kMpich, MpiKind::kOpenMpi));
}

TEST(MpiSearch, TheUserDecidesBeforeLaunchers) {
  const std::string size = "OMPI_COMM_WORLD_SIZE";
  EXPECT_THAT(plan_with({{"ATOLL_MPI", "mpich"}, {size, "2"}}).kinds, ElementsAre(MpiKind::kMpich));
  EXPECT_THAT(plan_with({{"ATOLL_MPI", "openmpi"}, {"PMI_SIZE", "2"}}).kinds,
              ElementsAre(MpiKind::kOpenMpi));
  EXPECT_EQ(plan_with({{"ATOLL_MPI", "/opt/lib/libmpi.so.12"}, {size, "2"}}).file,
            "/opt/lib/libmpi.so.12");
  EXPECT_THAT(plan_with({{"ATOLL_MPI", ""}, {size, "2"}}).kinds, ElementsAre(MpiKind::kOpenMpi));
}

TEST(MpiSearch, RefusesOtherWords) {
  try {
    plan_with({{"ATOLL_MPI", "intel"}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kOption);
    EXPECT_THAT(error.what(), testing::HasSubstr("'intel'; allowed are openmpi, mpich"));
  }
}

// A launcher in a folder of its own, and a link to it elsewhere.
TEST(MpiSearch, LooksBesideLaunchers) {
  namespace fs = std::filesystem;
  const fs::path top = fs::path(testing::TempDir()) / fmt::format("mpi-{}", ::getpid());
  for (const char* const folder : {"mpi/bin", "mpi/lib64", "usr/bin", "usr/lib"}) {
    fs::create_directories(top / folder);
  }
  std::ofstream(top / "mpi/bin/mpiexec") << "#!/bin/sh\n";
  fs::create_symlink(top / "mpi/bin/mpiexec", top / "usr/bin/mpiexec");
  const std::string path = (top / "none").string() + "::" + (top / "usr/bin").string();
  const fs::path real = fs::canonical(top);
  EXPECT_THAT(mpi_library_folders(path),
              ElementsAre((top / "usr/lib").string(), (real / "mpi/lib64").string()));
  EXPECT_THAT(mpi_library_folders((top / "none").string()), IsEmpty());
  fs::remove_all(top);
}

}  // namespace
}  // namespace atl
