#include "kernels/registry.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "base/error.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {

namespace {

using ::testing::HasSubstr;

TEST(Registry, MakesWhatItNames) {
  EXPECT_EQ(backend_names(), (std::vector<std::string>{"reference", "cpu", "cuda"}));
  EXPECT_EQ(make_backend("reference", {})->name(), "reference");
  EXPECT_EQ(make_backend("cpu", {})->name(), "cpu");
}

// Vectors that the machine lacks are never used, whatever the variable says.
TEST(Registry, VectorsCanBeNarrowed) {
  const char* const before = std::getenv("ATOLL_VECTORS");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("ATOLL_VECTORS", "baseline", 1);
  EXPECT_THAT(make_backend("cpu", {.threads = 1})->device(), HasSubstr("1 thread, baseline SIMD"));
  ::setenv("ATOLL_VECTORS", "sse9", 1);
  const Error error = thrown_error([] { make_backend("cpu", {.threads = 1}); });
  EXPECT_EQ(error.kind(), ErrorKind::kOption);
  EXPECT_STREQ(error.what(), "ATOLL_VECTORS=sse9: allowed are baseline, avx2, avx512");
  before == nullptr ? ::unsetenv("ATOLL_VECTORS") : ::setenv("ATOLL_VECTORS", kept.c_str(), 1);
}

TEST(Registry, AutoIsCudaWhereThatCanBeUsed) {
  std::string why;
  const int devices = cuda_device_count(why);
  BackendObstacle obstacle;
  const std::string name = make_backend("auto", {}, &obstacle)->name();
  EXPECT_EQ(name == "cpu", !obstacle.why.empty());
  if (devices == 0) {
    EXPECT_EQ(name, "cpu");
    EXPECT_EQ(obstacle.why, why);
  }
  EXPECT_EQ(obstacle.has_device, name == "cpu" && devices > 0);
}

// Whatever the options say.
TEST(Registry, ExplicitCudaNeverFallsBack) {
  std::string why;
  if (cuda_device_count(why) > 0) GTEST_SKIP() << "this machine has a device";
  EXPECT_FALSE(why.empty());
  for (const BackendOptions& options :
       {BackendOptions{}, BackendOptions{.device = 0}, BackendOptions{.device = 99},
        BackendOptions{.local_rank = 3}}) {
    const Error error = thrown_error([&] { make_backend("cuda", options); });
    EXPECT_EQ(error.kind(), ErrorKind::kOption);
    EXPECT_EQ(error.what(), "backend cuda: " + why);
  }
}

TEST(Registry, CudaDevicesAreChosenByIndexOrByLocalRank) {
  std::string why;
  const int count = cuda_device_count(why);
  if (count == 0) GTEST_SKIP() << why;
  const Error error = thrown_error([&] { make_backend("cuda", {.device = count}); });
  EXPECT_EQ(error.kind(), ErrorKind::kOption);
  EXPECT_EQ(error.what(), fmt::format("device {}: this machine has {}, allowed are 0 to {}", count,
                                      count, count - 1));
  for (int rank = 0; rank < 2 * count; ++rank) {
    const auto given = make_backend("cuda", {.device = rank % count});
    const auto by_rank = make_backend("cuda", {.local_rank = rank});
    EXPECT_EQ(given->device_id(), by_rank->device_id()) << rank;
    EXPECT_THAT(by_rank->device(), HasSubstr(fmt::format("(device {}, sm_", rank % count)));
  }
}

TEST(Registry, UnknownNameListsTheValidOnes) {
  const Error error = thrown_error([] { make_backend("gpu", {}); });
  EXPECT_EQ(error.kind(), ErrorKind::kOption);
  EXPECT_STREQ(error.what(), "unknown backend 'gpu'; allowed are auto, reference, cpu, cuda");
}

TEST(Registry, ThreadsAreShownAndChecked) {
  EXPECT_THAT(make_backend("cpu", {.threads = 3})->device(), HasSubstr(", 3 threads, "));
  EXPECT_THAT(make_backend("cpu", {.threads = 1})->device(), HasSubstr(", 1 thread, "));
  const Error error = thrown_error([] { make_backend("cpu", {.threads = -1}); });
  EXPECT_EQ(error.kind(), ErrorKind::kOption);
  EXPECT_THAT(error.what(), HasSubstr("-1"));
}

TEST(HostMemory, IsAlignedAndRefusedBeforeItKillsTheProcess) {
  for (const char* name : {"reference", "cpu"}) {
    const auto backend = make_backend(name, {});
    for (const std::int64_t bytes : {0LL, 1LL, 100LL, 5LL << 20}) {
      void* data = backend->allocate(bytes);
      ASSERT_NE(data, nullptr);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % 64, 0U);
      std::memset(data, 1, static_cast<std::size_t>(bytes));
      backend->release(data);
    }
    const Error error = thrown_error([&] { backend->allocate(std::int64_t{1} << 50); });
    EXPECT_EQ(error.kind(), ErrorKind::kMemory);
    EXPECT_THAT(error.what(), HasSubstr("1125899906842624"));
  }
}

// More than one chunk, so that the threads share it.
TEST(HostMemory, CopiesLargeBlocks) {
  const auto backend = make_backend("cpu", {.threads = 2});
  const auto queue = backend->make_queue();
  std::vector<std::uint8_t> from((5U << 20U) + 7);
  for (std::size_t k = 0; k < from.size(); ++k) from[k] = static_cast<std::uint8_t>(k * 31 >> 3U);
  std::vector<std::uint8_t> to(from.size());
  backend->copy(*queue, to.data(), from.data(), static_cast<std::int64_t>(from.size()),
                CopyKind::kHostToDevice);
  EXPECT_TRUE(from == to);
}

TEST(Support, DTypesAreWhatTheBackendsSay) {
  const auto expect_supported = [](const std::string& name, bool bf16, bool f64) {
    const auto backend = make_backend(name, {});
    EXPECT_TRUE(backend->supports(DType::kF32)) << name;
    EXPECT_EQ(backend->supports(DType::kBf16), bf16) << name;
    EXPECT_EQ(backend->supports(DType::kF64), f64) << name;
  };
  expect_supported("reference", true, true);
  expect_supported("cpu", true, false);
  std::string why;
  if (cuda_device_count(why) > 0) expect_supported("cuda", true, false);
}

}  // namespace

}  // namespace atl
