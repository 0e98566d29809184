#include "engine/training/epoch_profile.hpp"

#include <gtest/gtest.h>

namespace atl {
namespace {

TraceSpan span_at(const char* name, double start_us, double duration_us,
                  const SpanWork& work = {}) {
  TraceSpan span;
  span.name = name;
  span.start_us = start_us;
  span.duration_us = duration_us;
  span.work = work;
  return span;
}

TEST(EpochProfile, ComparesOperationsAndPhasesWithCeilings) {
  EpochProfile profile{.ceilings = {.bytes_per_s = 1e9, .flop_per_s = 1e10}};
  TraceSpan whole = span_at("epoch", 0, 100'000);
  whole.lane = kEpochLane;
  const std::vector<TraceSpan> phases = {span_at("spmm central", 10'000, 20'000),
                                         span_at("complete central", 40'000, 30'000), whole};
  const std::vector<TraceSpan> operations = {
      // 2 ms if every byte is moved once, 8 ms without reuse.
      span_at("spmm", 11'000, 10'000, {.flops = 1e6, .bytes = 2e6, .no_reuse_bytes = 8e6}),
      // Products limit it: 5 ms, its bytes only 1 ms.
      span_at("gemm", 41'000, 9'000, {.flops = 5e7, .bytes = 1e6, .no_reuse_bytes = 1e6}),
      span_at("gemm", 51'000, 7'000, {.flops = 5e7, .bytes = 1e6, .no_reuse_bytes = 1e6}),
      // In no phase.
      span_at("adam_step", 80'000, 1'000, {.flops = 0, .bytes = 3e5, .no_reuse_bytes = 3e5})};
  profile.add(100, operations, phases);
  EXPECT_EQ(profile.epochs, 1);
  EXPECT_EQ(profile.epoch_ms, 100);
  ASSERT_EQ(profile.operations.size(), 3U);
  EXPECT_EQ(profile.operations.at("gemm").calls, 2);
  EXPECT_DOUBLE_EQ(profile.operations.at("gemm").ms, 16);
  EXPECT_DOUBLE_EQ(profile.operations.at("gemm").bound_ms, 10);
  EXPECT_DOUBLE_EQ(profile.operations.at("spmm").bound_ms, 2);
  EXPECT_DOUBLE_EQ(profile.operations.at("spmm").no_reuse_bound_ms, 8);
  EXPECT_DOUBLE_EQ(profile.operations.at("adam_step").bound_ms, 0.3);
  ASSERT_EQ(profile.phases.size(), 2U);
  EXPECT_DOUBLE_EQ(profile.phases.at("spmm central").ms, 20);
  EXPECT_DOUBLE_EQ(profile.phases.at("spmm central").no_reuse_bound_ms, 8);
  EXPECT_DOUBLE_EQ(profile.phases.at("complete central").bound_ms, 10);
  profile.add(50, {span_at("gemm", 41'000, 4'000, {5e7, 1e6, 1e6})}, {});
  EXPECT_EQ(profile.epochs, 2);
  EXPECT_DOUBLE_EQ(profile.operations.at("gemm").ms, 20);
}

TEST(EpochProfile, WithoutCeilingsHasNoBounds) {
  EpochProfile profile;
  profile.add(1, {span_at("gemm", 0, 500, {1e9, 1e9, 1e9})}, {span_at("prepare central", 0, 600)});
  EXPECT_DOUBLE_EQ(profile.operations.at("gemm").ms, 0.5);
  EXPECT_EQ(profile.operations.at("gemm").bound_ms, 0);
  EXPECT_EQ(profile.phases.at("prepare central").bound_ms, 0);
}

}  // namespace
}  // namespace atl
