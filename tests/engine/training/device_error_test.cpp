// A kernel that fails in the middle of an epoch: an error with its name, not the end of the
// process.
#include <cuda_emulation.h>
#include <gtest/gtest.h>

#include "tests/engine/training/example_runs.hpp"
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

INSTANTIATE_TEST_SUITE_P(Ways, DeviceError,
                         ::testing::Values(std::tuple(1, "auto"), std::tuple(2, "staging"),
                                           std::tuple(3, "nccl")));

}  // namespace
}  // namespace atl
