#include "engine/comm/transport.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <optional>

#include "base/error.hpp"
#include "base/unique_handle.hpp"

namespace atl {
namespace {

using testing::HasSubstr;

TEST(OperationLabel, SaysWhatIsKnown) {
  EXPECT_EQ(to_string(OperationLabel{
                .operation = "halo exchange", .direction = "backward", .layer = 0, .epoch = 12}),
            "layer 0 backward halo exchange of epoch 12");
  EXPECT_EQ(to_string(OperationLabel{.operation = "gradient all-reduce", .epoch = 3}),
            "gradient all-reduce of epoch 3");
  EXPECT_EQ(to_string(OperationLabel{.operation = "barrier"}), "barrier");
}

// 10 values on 4 ranks: blocks of 2, 3, 2, 3.
TEST(AllReduceBytes, CountsBothPhases) {
  EXPECT_EQ(all_reduce_bytes(10, 4, 0, 4), (8 + 3 * 2) * 4);
  EXPECT_EQ(all_reduce_bytes(10, 4, 1, 4), (7 + 3 * 3) * 4);
  EXPECT_EQ(all_reduce_bytes(1, 8, 0, 3), 8);
  EXPECT_EQ(all_reduce_bytes(1, 8, 2, 3), 16);
  EXPECT_EQ(all_reduce_bytes(0, 8, 0, 3), 0);
  EXPECT_EQ(all_reduce_bytes(5, 8, 0, 1), 0);
}

// Sets the variables of a launcher and restores the environment at the end.
class Launcher : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : kNames) {
      const char* value = std::getenv(name);
      saved_.emplace_back(value == nullptr ? std::optional<std::string>() : value);
      ::unsetenv(name);
    }
  }
  void TearDown() override {
    for (std::size_t i = 0; i < std::size(kNames); ++i) {
      saved_[i] ? ::setenv(kNames[i], saved_[i]->c_str(), 1) : ::unsetenv(kNames[i]);
    }
  }
  static void set(const char* name, const char* value) { ::setenv(name, value, 1); }

 private:
  static constexpr const char* kNames[] = {"OMPI_COMM_WORLD_RANK",
                                           "OMPI_COMM_WORLD_SIZE",
                                           "OMPI_COMM_WORLD_LOCAL_RANK",
                                           "PMI_RANK",
                                           "PMI_SIZE",
                                           "MPI_LOCALRANKID",
                                           "SLURM_PROCID",
                                           "SLURM_STEP_NUM_TASKS",
                                           "SLURM_LOCALID",
                                           "SLURM_NTASKS"};
  std::vector<std::optional<std::string>> saved_;
};

void expect_info(int rank, int size, int local_rank) {
  const LauncherInfo info = launcher_info();
  EXPECT_EQ(info.rank, rank);
  EXPECT_EQ(info.size, size);
  EXPECT_EQ(info.local_rank, local_rank);
  EXPECT_EQ(launched_by_mpi(), size > 1);
}

TEST_F(Launcher, NoneIsAWorldOfOne) { expect_info(0, 1, 0); }

TEST_F(Launcher, Mpirun) {
  set("OMPI_COMM_WORLD_RANK", "5");
  set("OMPI_COMM_WORLD_SIZE", "8");
  set("OMPI_COMM_WORLD_LOCAL_RANK", "1");
  set("SLURM_PROCID", "0");
  set("SLURM_STEP_NUM_TASKS", "2");
  expect_info(5, 8, 1);
}

TEST_F(Launcher, Hydra) {
  set("PMI_RANK", "2");
  set("PMI_SIZE", "3");
  set("MPI_LOCALRANKID", "2");
  expect_info(2, 3, 2);
}

TEST_F(Launcher, Srun) {
  set("SLURM_PROCID", "3");
  set("SLURM_STEP_NUM_TASKS", "4");
  set("SLURM_LOCALID", "1");
  expect_info(3, 4, 1);
}

TEST_F(Launcher, ShellOfABatchScriptIsNotARank) {
  set("SLURM_PROCID", "0");
  set("SLURM_NTASKS", "4");
  expect_info(0, 1, 0);
}

TEST_F(Launcher, DamagedVariablesAreIgnored) {
  set("OMPI_COMM_WORLD_RANK", "4");
  set("OMPI_COMM_WORLD_SIZE", "4x");
  set("PMI_RANK", "-1");
  set("PMI_SIZE", "4");
  set("SLURM_PROCID", "4");
  set("SLURM_STEP_NUM_TASKS", "4");
  expect_info(0, 1, 0);
}

TEST_F(Launcher, MpiWithoutLauncherIsAWorldOfOne) {
  const auto transport = make_mpi_transport(5);
  EXPECT_EQ(transport->size(), 1);
  EXPECT_EQ(transport->rank(), 0);
  EXPECT_EQ(transport->timeout_seconds(), 5);
  std::vector<double> values{3};
  transport->all_reduce(std::span(values), {.operation = "sum"});
  EXPECT_EQ(values[0], 3);
  EXPECT_EQ(transport->bytes_sent(), 0);
}

// The ranks of which `options` ran the body, and the message if it threw.
std::pair<int, std::string> run(const TransportOptions& options) {
  std::atomic<int> ranks{0};
  try {
    run_ranks(options, [&](Transport&) { ++ranks; });
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kOption);
    return {ranks, error.what()};
  }
  return {ranks, ""};
}

TEST_F(Launcher, RunRanksChooses) {
  EXPECT_EQ(run({}).first, 1);
  EXPECT_EQ(run({.ranks = 3}).first, 3);
  EXPECT_EQ(run({.name = "local", .ranks = 2}).first, 2);
  EXPECT_EQ(run({.name = "mpi"}).first, 1);
  EXPECT_EQ(run({.name = "nccl", .ranks = 2}).first, 2);
}

TEST_F(Launcher, RunRanksRefuses) {
  EXPECT_EQ(run({.name = "carrier-pigeon"}).second,
            "--transport carrier-pigeon: unknown; use one of auto, local, mpi, nccl");
  EXPECT_THAT(run({.name = "mpi", .ranks = 3}).second, HasSubstr("launcher started 1 process"));
  EXPECT_THAT(run({.ranks = -1}).second, HasSubstr("--ranks -1"));
  set("OMPI_COMM_WORLD_RANK", "0");
  set("OMPI_COMM_WORLD_SIZE", "4");
  EXPECT_THAT(run({.name = "local"}).second, HasSubstr("4 processes"));
  EXPECT_THAT(run({.ranks = 3}).second, HasSubstr("--ranks 3"));
}

struct CountingTraits {
  using Value = int;
  static inline std::vector<int> released;
  static int null() { return 0; }
  static void release(int value) noexcept { released.push_back(value); }
};

TEST(UniqueHandle, ReleasesOnceAlsoOnMoveAssignment) {
  using Handle = UniqueHandle<CountingTraits>;
  CountingTraits::released.clear();
  {
    Handle first(1);
    Handle second(2);
    first = std::move(second);
    EXPECT_EQ(CountingTraits::released, std::vector<int>{1});
    EXPECT_EQ(first.get(), 2);
    EXPECT_FALSE(second);
    Handle third(std::move(first));
    Handle leaked(4);
    EXPECT_EQ(leaked.leak(), 4);
    EXPECT_EQ(CountingTraits::released, std::vector<int>{1});
  }
  EXPECT_EQ(CountingTraits::released, (std::vector<int>{1, 2}));
}

}  // namespace
}  // namespace atl
