// Whole runs that store matrices as bf16 on the CPU: the oracle's numbers, and the same bits
// whatever must not change them. device_training_test.cpp has the same for devices.
#include <gtest/gtest.h>

#include "tests/engine/training/example_runs.hpp"
#include "tests/engine/training/loss_bounds.hpp"

namespace atl {
namespace {

TrainOptions narrow_options(const std::string& backend) {
  TrainOptions options = small_options();
  options.backend = backend;
  options.model.dtype = DType::kBf16;
  return options;
}

class NarrowStorage : public ::testing::TestWithParam<std::tuple<std::string, Norm>> {};

TEST_P(NarrowStorage, FollowsTheReference) {
  const TempDir dir;
  const auto [model, norm] = GetParam();
  const std::filesystem::path dataset = make_sbm(dir, true);
  TrainOptions reference = narrow_options("reference");
  TrainOptions cpu = narrow_options("cpu");
  for (TrainOptions* options : {&reference, &cpu}) {
    options->model.kind = model;
    options->model.norm = norm;
    options->model.input_dropout = 0.1;
  }
  const RunResult expected = run_epochs(dataset, 1, reference, 1, 30);
  const auto distance = [&](const RunResult& found, std::size_t epoch) {
    const double loss = expected.losses[epoch - 1];
    return std::abs(found.losses[epoch - 1] - loss) / loss;
  };
  for (const int ranks : {1, 3}) {
    const RunResult found = run_epochs(dataset, ranks, cpu, 1, 30);
    EXPECT_LT(distance(found, 1), kSameParametersBf16) << ranks;
    EXPECT_LT(distance(found, 30), kAfter30EpochsBf16) << ranks;
    EXPECT_NEAR(found.metrics.test, expected.metrics.test, 0.03) << ranks;
    EXPECT_LT(found.losses.back(), 0.8 * found.losses.front()) << ranks;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, NarrowStorage,
                         ::testing::Combine(::testing::Values("gcn", "sage"),
                                            ::testing::Values(Norm::kNone, Norm::kLayer,
                                                              Norm::kBatch)));

// The storage shows in the loss: nothing went on in f32.
TEST(NarrowStorage, RoundsWhatItStores) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, true);
  const RunResult wide = run_epochs(dataset, 2, small_options(), 1, 3);
  const RunResult narrow = run_epochs(dataset, 2, narrow_options("cpu"), 1, 3);
  EXPECT_NE(narrow.losses[0], wide.losses[0]);
  EXPECT_NEAR(narrow.losses[0], wide.losses[0], 0.02 * wide.losses[0]);
  EXPECT_EQ(2 * narrow.formula_bytes, wide.formula_bytes);
}

TEST(NarrowStorage, RepeatsBitForBitAndThreadsAndOverlapChangeNothing) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, true);
  for (const std::string exchange : {"exact", "quantized"}) {
    TrainOptions options = narrow_options("cpu");
    options.exchange = exchange;
    options.message_bits.bits = parse_bits("4");
    const RunResult first = run_epochs(dataset, 3, options, 1, 5);
    expect_same_run(run_epochs(dataset, 3, options, 1, 5), first);
    options.overlap = false;
    expect_same_run(run_epochs(dataset, 3, options, 1, 5), first);
    options.threads = 3;
    expect_same_run(run_epochs(dataset, 3, options, 1, 5), first);
  }
}

TEST(NarrowStorage, GoesOnFromItsStateBitForBit) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, false);
  const TrainOptions options = narrow_options("cpu");
  const RunResult whole = run_epochs(dataset, 2, options, 1, 6);
  const RunResult half = run_epochs(dataset, 2, options, 1, 3);
  const RunResult rest = run_epochs(dataset, 2, options, 4, 6, half.state);
  EXPECT_TRUE(same_tensors(whole.state, rest.state));
  EXPECT_EQ(whole.losses[5], rest.losses[2]);
}

}  // namespace
}  // namespace atl
