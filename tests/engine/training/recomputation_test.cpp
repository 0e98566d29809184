// Boundary recomputation in whole runs: the numbers of runs that fetch every row, and less traffic.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/engine/training/example_runs.hpp"
#include "tests/engine/training/loss_bounds.hpp"
#include "tests/support/require_device.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

constexpr int kRanks = 3;

// Rank 0 computes rows of rank 2, rank 2 those of both others, rank 1 none.
Recomputation of_some_pairs() {
  Recomputation some(kRanks);
  some.set(0, 2);
  some.set(2, 0);
  some.set(2, 1);
  return some;
}

TrainOptions recomputing(const Recomputation& recomputation, const std::string& backend = "cpu") {
  TrainOptions options = small_options();
  options.backend = backend;
  options.model.recomputation = recomputation;
  return options;
}

// Losses of 6 epochs and the metrics after them.
void expect_same_numbers(const std::filesystem::path& dataset, const TrainOptions& options) {
  TrainOptions fetching = options;
  fetching.model.recomputation = {};
  const RunResult expected = run_epochs(dataset, kRanks, fetching, 1, 6);
  const RunResult found = run_epochs(dataset, kRanks, options, 1, 6);
  for (std::size_t e = 0; e < expected.losses.size(); ++e) {
    EXPECT_NEAR(found.losses[e], expected.losses[e], kAfterFewSteps * expected.losses[e])
        << "epoch " << e;
  }
  EXPECT_NEAR(found.metrics.valid, expected.metrics.valid, 0.01);
  // The third epoch has nothing left to fetch once and for all.
  EXPECT_LT(found.formula_bytes, expected.formula_bytes);
  EXPECT_EQ(expected.bytes[2] - found.bytes[2], expected.formula_bytes - found.formula_bytes);
}

using Case = std::tuple<std::string, bool, Norm, OrderChoice>;
class RecomputationOf : public ::testing::TestWithParam<Case> {};

TEST_P(RecomputationOf, GivesTheSameNumbersWithFewerBytes) {
  const TempDir dir;
  const auto [model, directed, norm, order] = GetParam();
  const std::filesystem::path dataset = make_sbm(dir, directed);
  for (const Recomputation& which : {of_some_pairs(), Recomputation::of_all_pairs(kRanks)}) {
    TrainOptions options = recomputing(which);
    options.model.kind = model;
    options.model.norm = norm;
    options.model.order = order;
    options.overlap = norm != Norm::kLayer;
    expect_same_numbers(dataset, options);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, RecomputationOf,
    ::testing::Values(Case{"gcn", false, Norm::kBatch, OrderChoice::kAuto},
                      Case{"gcn", true, Norm::kNone, OrderChoice::kAggregateFirst},
                      Case{"gcn", true, Norm::kLayer, OrderChoice::kAuto},
                      Case{"sage", true, Norm::kBatch, OrderChoice::kAggregateFirst},
                      Case{"sage", false, Norm::kLayer, OrderChoice::kAuto}));

TEST(DeviceRecomputation, GivesTheSameNumbersWithFewerBytes) {
  require_backend("cuda");
  if (IsSkipped() || HasFailure()) return;
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, /*directed=*/true);
  for (const char* messages : {"auto", "staging"}) {
    TrainOptions options = recomputing(of_some_pairs(), "cuda");
    options.messages = messages;
    expect_same_numbers(dataset, options);
  }
}

TEST(Recomputation, LeavesRowsOfAllLayersButTheSecondToTheExchangeMode) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, /*directed=*/true);
  TrainOptions options = recomputing(of_some_pairs());
  const RunResult exact = run_epochs(dataset, kRanks, options, 1, 6);
  options.exchange = "quantized";
  options.message_bits.bits = parse_bits("32");
  const RunResult as_stored = run_epochs(dataset, kRanks, options, 1, 6);
  EXPECT_EQ(as_stored.losses, exact.losses);
  EXPECT_TRUE(same_tensors(as_stored.state, exact.state));
  for (const char* bits : {"8", "random", "adaptive"}) {
    options.message_bits.bits = parse_bits(bits);
    options.message_bits.reassign_every = 2;
    const RunResult few = run_epochs(dataset, kRanks, options, 1, 6);
    EXPECT_NE(few.losses, exact.losses) << bits;
    EXPECT_NEAR(few.losses[5], exact.losses[5], 0.05 * exact.losses[5]) << bits;
  }
}

TEST(Recomputation, GoesOnFromACheckpoint) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, /*directed=*/false);
  const TrainOptions options = recomputing(Recomputation::of_all_pairs(kRanks));
  const RunResult whole = run_epochs(dataset, kRanks, options, 1, 6);
  const RunResult half = run_epochs(dataset, kRanks, options, 1, 3);
  const RunResult rest = run_epochs(dataset, kRanks, options, 4, 6, half.state);
  EXPECT_TRUE(same_tensors(rest.state, whole.state));
}

TEST(Recomputation, NeedsAKeptAggregateAndALayerAfterIt) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, /*directed=*/false);
  const auto refusal = [&](const std::function<void(TrainOptions&)>& change) {
    TrainOptions options = recomputing(Recomputation::of_all_pairs(2));
    change(options);
    return std::string(thrown_error([&] { run_epochs(dataset, 2, options, 1, 1); }).what());
  };
  const auto names_options = ::testing::AllOf(::testing::HasSubstr("--recompute"),
                                              ::testing::HasSubstr("--cache-aggregate on"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.model.layers = 1; }), names_options);
  EXPECT_THAT(refusal([](TrainOptions& o) { o.model.input_dropout = 0.5; }), names_options);
  EXPECT_THAT(refusal([](TrainOptions& o) { o.model.cache_aggregate = false; }), names_options);
  EXPECT_THAT(refusal([](TrainOptions& o) { o.model.order = OrderChoice::kMultiplyFirst; }),
              names_options);
}

}  // namespace
}  // namespace atl
