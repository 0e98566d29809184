// A kernel that fails in the middle of an epoch: an error with its name, not the end of the
// process.
#include <cuda_emulation.h>
#include <gtest/gtest.h>

#include "tests/engine/training/example_runs.hpp"
#include "tests/support/require_nccl.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

class DeviceError : public ::testing::TestWithParam<std::tuple<int, std::string>> {
 protected:
  void TearDown() override { cuda_emulation::clear_errors(); }
};

TEST_P(DeviceError, EndsTheRunWithItsName) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, false);
  const auto [ranks, messages] = GetParam();
  if (messages == "nccl") {
    require_nccl_devices(ranks);
    if (IsSkipped() || HasFailure()) return;
  }
  TrainOptions options = small_options();
  options.backend = "cuda";
  options.messages = messages;
  const Error error = thrown_error([&, ranks = ranks] {
    run_local_ranks(ranks, 10, [&](Transport& transport) {
      RankJob job(transport, dataset, PartitionOptions{}, options);
      job.trainer().run_epoch(1);
      if (transport.rank() == 0) cuda_emulation::fail_next_kernel(cudaErrorIllegalAddress);
      for (int epoch = 2; epoch <= 4; ++epoch) job.trainer().run_epoch(epoch);
    });
  });
  EXPECT_EQ(error.kind(), ErrorKind::kDevice);
  EXPECT_NE(std::string(error.what()).find("illegal"), std::string::npos) << error.what();
}

// All ranks queue their epochs then, with the same bits; what was asked for is an error.
TEST(DeviceErrorOfARecording, OnOneRankIsThatOfAll) {
  constexpr int kRanks = 3;
  require_nccl_devices(kRanks);
  if (IsSkipped() || HasFailure()) return;
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, false);
  TrainOptions options = small_options();
  options.backend = "cuda";
  options.messages = "nccl";
  const auto run = [&] { return run_epochs(dataset, kRanks, options, 1, 5); };
  options.cuda_graph = GraphReplay::kOff;
  const RunResult queued = run();
  options.cuda_graph = GraphReplay::kAuto;
  EXPECT_EQ(run().of_recording, std::vector<bool>({0, 0, 1, 1, 1}));
  cuda_emulation::fail_next_calls("cudaGraphInstantiate", cudaErrorNotSupported);
  const RunResult refused = run();
  EXPECT_EQ(refused.of_recording, std::vector<bool>(5, false));
  expect_same_run(refused, queued);
  EXPECT_EQ(refused.bytes, queued.bytes);
  options.cuda_graph = GraphReplay::kOn;
  cuda_emulation::fail_next_calls("cudaGraphInstantiate", cudaErrorNotSupported);
  const Error error = thrown_error([&] { run(); });
  EXPECT_EQ(error.kind(), ErrorKind::kDevice);
  cuda_emulation::clear_errors();
}

INSTANTIATE_TEST_SUITE_P(Ways, DeviceError,
                         ::testing::Values(std::tuple(1, "auto"), std::tuple(2, "staging"),
                                           std::tuple(3, "nccl")));

}  // namespace
}  // namespace atl
