// Whole runs on a device: the numbers of the oracle and of the other ways to run them.
#include <gtest/gtest.h>

#include "base/npy.hpp"
#include "engine/training/calibration.hpp"
#include "engine/training/prediction.hpp"
#include "kernels/bf16.hpp"
#include "tests/engine/training/example_runs.hpp"
#include "tests/engine/training/loss_bounds.hpp"
#include "tests/support/require_device.hpp"
#include "tests/support/require_nccl.hpp"

namespace atl {
namespace {

class DeviceTraining : public ::testing::Test {
 protected:
  void SetUp() override { require_backend("cuda"); }

  // Many tests compare bits of two runs, so nothing may depend on times that are measured.
  static TrainOptions on_device() {
    TrainOptions options = small_options();
    options.backend = "cuda";
    options.spmm = SpmmWish::kOwn;
    return options;
  }
  static TrainOptions on_reference() {
    TrainOptions options = small_options();
    options.backend = "reference";
    return options;
  }

  TempDir dir_;
};

// Relative distance of two losses of the same epoch.
double distance(const RunResult& found, const RunResult& expected, std::size_t epoch) {
  return std::abs(found.losses[epoch - 1] - expected.losses[epoch - 1]) /
         expected.losses[epoch - 1];
}

class DeviceSteps : public DeviceTraining,
                    public ::testing::WithParamInterface<std::tuple<std::string, Norm>> {};

TEST_P(DeviceSteps, FollowTheReferenceFor50Epochs) {
  const auto [model, norm] = GetParam();
  const std::filesystem::path dataset = make_sbm(dir_, true);
  TrainOptions reference = on_reference();
  TrainOptions device = on_device();
  // Both ways between devices, where there are several.
  device.messages = model == "sage" ? "staging" : "auto";
  for (TrainOptions* options : {&reference, &device}) {
    options->model.kind = model;
    options->model.norm = norm;
  }
  const RunResult expected = run_epochs(dataset, 1, reference, 1, 50);
  EXPECT_LT(expected.losses.back(), 0.7 * expected.losses.front());
  for (const int ranks : {1, 4}) {
    const RunResult found = run_epochs(dataset, ranks, device, 1, 50);
    EXPECT_LT(distance(found, expected, 1), kSameParameters) << ranks;
    EXPECT_LT(distance(found, expected, 2), kAfterFewSteps) << ranks;
    EXPECT_LT(distance(found, expected, 20), kAfter20Epochs) << ranks;
    EXPECT_LT(distance(found, expected, 50), kAfter50Epochs) << ranks;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, DeviceSteps,
                         ::testing::Combine(::testing::Values("gcn", "sage"),
                                            ::testing::Values(Norm::kNone, Norm::kLayer,
                                                              Norm::kBatch)));

TEST_F(DeviceTraining, RepeatsBitForBitAndOverlapChangesNothing) {
  const std::filesystem::path dataset = make_sbm(dir_, true);
  TrainOptions options = on_device();
  const RunResult first = run_epochs(dataset, 3, options, 1, 5);
  expect_same_run(run_epochs(dataset, 3, options, 1, 5), first);
  options.overlap = false;
  expect_same_run(run_epochs(dataset, 3, options, 1, 5), first);
}

TEST_F(DeviceTraining, ReplayedEpochsGiveTheSameBits) {
  const std::filesystem::path dataset = make_sbm(dir_, true);
  for (const Norm norm : {Norm::kNone, Norm::kBatch}) {
    TrainOptions options = on_device();
    options.model.norm = norm;
    options.model.input_dropout = 0.2;
    options.optimizer.schedule = LearningRateSchedule::kCosine;
    options.cuda_graph = GraphReplay::kOff;
    const RunResult queued = run_epochs(dataset, 1, options, 1, 7);
    options.cuda_graph = GraphReplay::kOn;
    bool replayed = false;
    run_local_ranks(1, 30, [&](Transport& transport) {
      RankJob job(transport, dataset, PartitionOptions{}, options);
      for (int epoch = 1; epoch <= 7; ++epoch) {
        const double loss = job.trainer().run_epoch(epoch).loss;
        EXPECT_EQ(loss, queued.losses[static_cast<std::size_t>(epoch - 1)]) << epoch;
        job.trainer().evaluate(epoch);
      }
      replayed = job.trainer().replays();
      EXPECT_TRUE(same_tensors(job.trainer().state(true), queued.state));
    });
    EXPECT_TRUE(replayed);
  }
}

TEST_F(DeviceTraining, NarrowStorageFollowsTheReference) {
  const std::filesystem::path dataset = make_sbm(dir_, true);
  TrainOptions reference = on_reference();
  reference.model.dtype = DType::kBf16;
  const RunResult expected = run_epochs(dataset, 1, reference, 1, 30);
  TrainOptions device = on_device();
  device.model.dtype = DType::kBf16;
  const std::pair<const char*, int> cases[] = {{"cuda", 1}, {"cuda", 3}, {"cuda,cpu,cuda", 3}};
  for (const auto& [backend, ranks] : cases) {
    device.backend = backend;
    const RunResult found = run_epochs(dataset, ranks, device, 1, 30);
    EXPECT_LT(distance(found, expected, 1), kSameParametersBf16) << backend << ", " << ranks;
    EXPECT_LT(distance(found, expected, 30), kAfter30EpochsBf16) << backend << ", " << ranks;
    EXPECT_NEAR(found.metrics.test, expected.metrics.test, 0.03) << backend << ", " << ranks;
  }
}

TEST_F(DeviceTraining, GoesOnFromItsStateBitForBit) {
  const std::filesystem::path dataset = make_sbm(dir_, false);
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    TrainOptions options = on_device();
    options.model.dtype = dtype;
    const RunResult whole = run_epochs(dataset, 2, options, 1, 6);
    const RunResult half = run_epochs(dataset, 2, options, 1, 3);
    const RunResult rest = run_epochs(dataset, 2, options, 4, 6, half.state);
    EXPECT_TRUE(same_tensors(whole.state, rest.state));
    EXPECT_EQ(whole.losses[5], rest.losses[2]);
  }
}

TEST_F(DeviceTraining, MixesWithRanksOnTheCpu) {
  const std::filesystem::path dataset = make_sbm(dir_, true);
  const RunResult expected = run_epochs(dataset, 1, on_reference(), 1, 20);
  TrainOptions options = on_device();
  options.backend = "cuda,cpu,cuda";
  const RunResult found = run_epochs(dataset, 3, options, 1, 20);
  EXPECT_LT(distance(found, expected, 1), kSameParameters);
  EXPECT_LT(distance(found, expected, 20), kAfter20Epochs);
  EXPECT_EQ(found.bytes, run_epochs(dataset, 3, small_options(), 1, 20).bytes);
}

// The mean has other factors in each direction, of which a plan for cuSPARSE makes copies.
TEST_F(DeviceTraining, FollowsTheReferenceWithEveryKernel) {
  const std::filesystem::path dataset = make_sbm(dir_, false);
  TrainOptions options = on_reference();
  options.model.kind = "sage";
  const RunResult expected = run_epochs(dataset, 1, options, 1, 5);
  options.backend = "cuda";
  options.spmm = SpmmWish::kCusparse;
  const std::filesystem::path file = dir_.path() / "calibration.json";
  run_local_ranks(1, 30, [&](Transport& transport) {
    RankJob job(transport, dataset, PartitionOptions{}, options);
    job.trainer().run_epoch(1);
    save_calibration(transport, job.choices(), nullptr, dir_.path());
  });
  options.spmm = SpmmWish::kOwn;
  options.calibration = file;
  for (const char* kernel : {"own", "cusparse-alg2", "cusparse-alg3"}) {
    Json choices = read_json(file);
    ASSERT_FALSE(choices.at("kernel_choices").empty());
    for (Json& choice : choices.at("kernel_choices")) choice["kernel"] = kernel;
    choices.erase("seal");  // written by hand from here on
    write_json(file, choices);
    const RunResult found = run_epochs(dataset, 1, options, 1, 5);
    EXPECT_LT(distance(found, expected, 1), kSameParameters) << kernel;
    EXPECT_LT(distance(found, expected, 5), kAfterFewSteps) << kernel;
  }
}

// Odd widths, ranges that cuSPARSE may not be given, both types, recorded and not.
TEST_F(DeviceTraining, FollowsTheReferenceByCusparseOnSeveralRanks) {
  const std::filesystem::path dataset = make_sbm(dir_, true);
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    TrainOptions reference = on_reference();
    reference.model.kind = "sage";
    reference.model.hidden = 13;
    reference.model.dtype = dtype;
    const RunResult expected = run_epochs(dataset, 1, reference, 1, 5);
    TrainOptions device = reference;
    device.backend = "cuda";
    device.spmm = SpmmWish::kCusparse;
    for (const int ranks : {1, 2, 4}) {
      const RunResult found = run_epochs(dataset, ranks, device, 1, 5);
      const bool wide = dtype == DType::kF32;
      EXPECT_LT(distance(found, expected, 1), wide ? kSameParameters : kSameParametersBf16)
          << ranks;
      EXPECT_LT(distance(found, expected, 5), wide ? kAfterFewSteps : kAfterFewStepsBf16) << ranks;
    }
    device.cuda_graph = GraphReplay::kOff;
    const RunResult queued = run_epochs(dataset, 1, device, 1, 5);
    device.cuda_graph = GraphReplay::kOn;
    const RunResult replayed = run_epochs(dataset, 1, device, 1, 5);
    EXPECT_TRUE(replayed.replayed);
    expect_same_run(replayed, queued);
  }
}

// The norm of all gradients stays on the device, so that steps that need it are replayed, too.
TEST_F(DeviceTraining, ClippedStepsAreReplayed) {
  const std::filesystem::path dataset = make_sbm(dir_, true);
  TrainOptions options = on_device();
  options.optimizer.kind = OptimizerKind::kAdamW;
  options.optimizer.weight_decay = 0.05;
  options.optimizer.warmup_epochs = 4;
  options.optimizer.clip_norm = 0.01;
  options.optimizer.parameter_groups = "*.weight: lr=0.02";
  options.optimizer.average_decay = 0.9;
  TrainOptions reference = options;
  reference.backend = "reference";
  const RunResult expected = run_epochs(dataset, 1, reference, 1, 5);
  options.cuda_graph = GraphReplay::kOff;
  const RunResult queued = run_epochs(dataset, 1, options, 1, 5);
  EXPECT_LT(distance(queued, expected, 5), kAfterFewSteps);
  options.cuda_graph = GraphReplay::kOn;
  const RunResult replayed = run_epochs(dataset, 1, options, 1, 5);
  EXPECT_TRUE(replayed.replayed);
  expect_same_run(replayed, queued);
}

TEST_F(DeviceTraining, NcclGivesTheBitsOfStaging) {
  constexpr int kRanks = 3;
  require_nccl_devices(kRanks);
  if (IsSkipped() || HasFailure()) return;
  const std::filesystem::path dataset = make_sbm(dir_, true);
  TrainOptions options = on_device();
  options.messages = "staging";
  const RunResult staged = run_epochs(dataset, kRanks, options, 1, 6);
  options.messages = "nccl";
  const RunResult direct = run_epochs(dataset, kRanks, options, 1, 6);
  expect_same_run(direct, staged);
  EXPECT_EQ(direct.bytes, staged.bytes);
  options.cuda_graph = GraphReplay::kOn;
  const RunResult replayed = run_epochs(dataset, kRanks, options, 1, 6);
  EXPECT_TRUE(replayed.replayed);
  expect_same_run(replayed, staged);
  EXPECT_EQ(replayed.bytes, staged.bytes);
}

// Products read weights of 13 and 4 columns from rows of whole accesses; what is trained and saved
// stays without gaps.
TEST_F(DeviceTraining, OperandsOfProductsArePadded) {
  const std::filesystem::path dataset = make_sbm(dir_, false);
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    TrainOptions options = on_device();
    options.model.kind = "sage";
    options.model.hidden = 13;
    options.model.dtype = dtype;
    run_local_ranks(1, 30, [&](Transport& transport) {
      RankJob job(transport, dataset, PartitionOptions{}, options);
      for (int epoch = 1; epoch <= 4; ++epoch) job.trainer().run_epoch(epoch);
      const Rank& rank = job.trainer().rank();
      ParameterStore& parameters = job.trainer().network().parameters();
      int padded = 0;
      for (int p = 0; p < static_cast<int>(parameters.list().size()); ++p) {
        if (!parameters.list()[static_cast<std::size_t>(p)].is_weight) continue;
        const MatrixView value = parameters.value(p);
        const ConstMatrixView operand = parameters.operand(p);
        EXPECT_EQ(value.stride, value.cols);
        if (dtype == DType::kBf16) {
          EXPECT_EQ(operand.stride, padded_columns(value.cols));
          padded += operand.stride != value.stride;
        } else {
          EXPECT_EQ(operand.stride, value.stride);
        }
        const std::vector<float> exact = download_f32(rank.backend, rank.queue, value);
        const std::vector<float> stored = download_f32(rank.backend, rank.queue, operand);
        for (std::size_t k = 0; k < exact.size(); ++k) {
          const float expected = dtype == DType::kF32 ? exact[k] : to_float(to_bf16(exact[k]));
          ASSERT_EQ(stored[k], expected) << parameters.list()[static_cast<std::size_t>(p)].name;
        }
      }
      EXPECT_EQ(padded, dtype == DType::kBf16 ? 6 : 0);
    });
  }
}

TEST_F(DeviceTraining, ProfilesTheComputeQueueOnSeveralRanks) {
  const std::filesystem::path dataset = make_sbm(dir_, false);
  const TrainOptions options = on_device();
  run_local_ranks(2, 30, [&](Transport& transport) {
    RankJob job(transport, dataset, PartitionOptions{}, options);
    EpochProfile profile;
    job.trainer().profile_epoch(1, profile);
    EXPECT_GT(profile.operations.at("spmm").calls, 0);
    // Packing runs beside it.
    EXPECT_FALSE(profile.operations.contains("gather_rows"));
  });
}

TEST_F(DeviceTraining, PredictsWhatTheReferencePredicts) {
  const std::filesystem::path dataset = make_sbm(dir_, false);
  const auto logits_of = [&](const TrainOptions& options, int ranks) {
    const std::filesystem::path out = dir_.path() / "logits.npy";
    run_local_ranks(ranks, 30, [&](Transport& transport) {
      RankJob job(transport, dataset, PartitionOptions{}, options);
      for (int epoch = 1; epoch <= 3; ++epoch) job.trainer().run_epoch(epoch);
      predict(job.trainer(), job.data(), transport, PredictionKind::kLogits, out);
    });
    const NpyFile file(out);
    const auto values = file.values<float>();
    return std::vector<float>(values.begin(), values.end());
  };
  const std::vector<float> expected = logits_of(on_reference(), 1);
  const std::vector<float> found = logits_of(on_device(), 2);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 2e-3) << i;
}

TEST_F(DeviceTraining, ProfilesItsOperations) {
  const std::filesystem::path dataset = make_sbm(dir_, false);
  const TrainOptions options = on_device();
  run_local_ranks(1, 30, [&](Transport& transport) {
    RankJob job(transport, dataset, PartitionOptions{}, options);
    for (int epoch = 1; epoch <= 4; ++epoch) job.trainer().run_epoch(epoch);
    EpochProfile profile{.ceilings = {1e9, 1e9}};
    const EpochResult result = job.trainer().profile_epoch(5, profile);
    EXPECT_GT(profile.operations.at("spmm").calls, 0);
    EXPECT_GT(profile.operations.at("gemm").ms, 0);
    double named = 0;
    for (const auto& [kernel, cost] : profile.kernels) {
      EXPECT_TRUE(kernel.starts_with("spmm ") && kernel.ends_with(" wide by own")) << kernel;
      named += cost.bound_ms;
    }
    EXPECT_NEAR(named / profile.operations.at("spmm").bound_ms, 1, 1e-9);
    EXPECT_EQ(profile.operations.at("adam_step").calls, 1);
    EXPECT_EQ(profile.epoch_ms, result.epoch_ms);
    double sum = 0, bound = 0, in_phases = 0;
    for (const auto& [name, cost] : profile.operations) {
      sum += cost.ms;
      bound += cost.bound_ms;
    }
    for (const auto& [name, cost] : profile.phases) in_phases += cost.bound_ms;
    EXPECT_LE(sum, result.epoch_ms);
    // All but what clears the gradients lies in a phase.
    EXPECT_GT(bound, 0);
    EXPECT_GT(in_phases, 0.99 * bound);
    EXPECT_LE(in_phases, 1.000001 * bound);
  });
}

}  // namespace
}  // namespace atl
