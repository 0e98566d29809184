// Errors of the device and of the library, which only an emulated device gives on demand.
#include <cuda_emulation.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "tests/engine/comm/device_rank.hpp"
#include "tests/support/require_nccl.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

using testing::HasSubstr;

constexpr OperationLabel kEmulatedHalo{
    .operation = "halo exchange", .direction = "forward", .layer = 1};

class NcclErrors : public testing::Test {
 protected:
  void TearDown() override { cuda_emulation::clear_errors(); }

  // A world of one, for errors that need no peer.
  static Error error_of(const std::function<void(DeviceRank&)>& body) {
    Error error(ErrorKind::kInput, "");
    run_devices(1, 60, [&](DeviceRank& rank) {
      error = thrown_error([&] { body(rank); });
      cuda_emulation::clear_errors();
      EXPECT_THAT(thrown_error([&] { rank.device->wait(*rank.compute); }).what(),
                  HasSubstr("NCCL was aborted after an error"));
    });
    return error;
  }
};

TEST_F(NcclErrors, ADeviceThatFailsEndsTheWait) {
  const Error error = error_of([](DeviceRank& rank) {
    const auto values = rank.bytes(64, 1);
    cuda_emulation::fail_next_kernel(cudaErrorIllegalAddress);
    const MatrixView matrix{values->span().data(), 4, 4, 4, DType::kF32};
    Epilogue relu;
    relu.function = ActivationFunction::kRelu;
    rank.backend->run(*rank.compute, kernels::ApplyEpilogue{matrix, relu, matrix});
    rank.device->wait(*rank.compute);
  });
  EXPECT_EQ(error.kind(), ErrorKind::kDevice);
  EXPECT_THAT(error.what(), HasSubstr("cudaErrorIllegalAddress"));
}

TEST(NcclCommunicator, RefusedMemoryIsNamedWithTheTransfer) {
  require_nccl_devices(2);
  if (testing::Test::IsSkipped() || testing::Test::HasFailure()) return;
  std::vector<std::byte> host(64);  // not of allocate_staging()
  std::vector<Error> errors(2, Error(ErrorKind::kInput, ""));
  run_devices(2, 60, [&](DeviceRank& rank) {
    std::vector<std::span<const std::byte>> sends(2);
    sends[static_cast<std::size_t>(1 - rank.rank)] = host;
    errors[static_cast<std::size_t>(rank.rank)] = thrown_error([&] {
      rank.device->all_to_all_v(sends, std::vector<std::span<std::byte>>(2), kEmulatedHalo);
    });
  });
  for (const Error& error : errors) {
    EXPECT_EQ(error.kind(), ErrorKind::kCommunication);
    EXPECT_STREQ(error.what(),
                 "NCCL failed in layer 1 forward halo exchange: invalid argument (the buffer is "
                 "neither device nor pinned memory)");
  }
}

// The library notices only when all ranks have joined: an error that ncclCommGetAsyncError reports.
TEST(NcclCommunicator, AnAsynchronousErrorIsNamed) {
  std::vector<std::byte> id = nccl_unique_id();
  run_local_ranks(2, 60, [&](Transport& transport) {
    const auto backend = make_backend("cuda", {.threads = 1, .device = 0});
    const Error error = thrown_error([&] { make_nccl_transport(transport, *backend, id); });
    EXPECT_EQ(error.kind(), ErrorKind::kCommunication);
    EXPECT_THAT(error.what(), testing::MatchesRegex("NCCL failed in the start of NCCL with rank "
                                                    "[01]: invalid usage \\(Duplicate GPU.*\\)"));
  });
}

// In a process of its own, which loads the library anew.
TEST(NcclGroupsDeathTest, AnOldLibraryIsNamed) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto split_with_old_library = [] {
    ::setenv("ATOLL_EMULATION_NCCL", "21703", 1);
    run_devices(1, 60, [](DeviceRank& rank) {
      const auto group = rank.transport.split(0, "stage 0");
      const Error error = thrown_error([&] { rank.device->split(group.get()); });
      std::fprintf(stderr, "%s\n", error.what());
    });
    std::_Exit(0);
  };
  EXPECT_EXIT(split_with_old_library(), testing::ExitedWithCode(0),
              "groups of ranks need NCCL 2.18.1 or newer, but this is NCCL 2.17.3; --transport mpi "
              "and local do without NCCL");
}

}  // namespace
}  // namespace atl
