// How often the host waits for a device: once in an epoch and once in an evaluation, queued or
// replayed; never through a stream where NCCL's errors are asked for meanwhile.
#include <cuda_emulation.h>
#include <gtest/gtest.h>

#include <utility>

#include "tests/engine/training/example_runs.hpp"
#include "tests/support/require_nccl.hpp"

namespace atl {
namespace {

class DeviceWaits : public ::testing::Test {
 protected:
  static TrainOptions on_device(Norm norm) {
    TrainOptions options = small_options();
    options.backend = "cuda";
    options.model.norm = norm;
    return options;
  }

  TempDir dir_;
};

constexpr int kFirst = 3;  // epoch with nothing left to prepare: it is recorded
constexpr int kLast = 6;

TEST_F(DeviceWaits, OnceInAnEpochAndOnceInAnEvaluation) {
  const std::filesystem::path dataset = make_sbm(dir_, false);
  for (const Norm norm : {Norm::kNone, Norm::kLayer, Norm::kBatch}) {
    for (const GraphReplay replay : {GraphReplay::kOff, GraphReplay::kOn}) {
      TrainOptions options = on_device(norm);
      options.cuda_graph = replay;
      run_local_ranks(1, 30, [&](Transport& transport) {
        RankJob job(transport, dataset, PartitionOptions{}, options);
        Trainer& trainer = job.trainer();
        std::size_t waits = 0;
        const auto waited = [&] {
          const std::size_t before = std::exchange(waits, cuda_emulation::host_waits());
          return waits - before;
        };
        for (int epoch = 1; epoch <= kLast; ++epoch) {
          waited();
          trainer.run_epoch(epoch);
          const std::size_t in_epoch = waited();
          trainer.evaluate(epoch);
          const std::size_t in_evaluation = waited();
          if (epoch < kFirst) continue;
          EXPECT_EQ(in_epoch, 1U) << to_string(norm) << ", epoch " << epoch;
          EXPECT_EQ(in_evaluation, 1U) << to_string(norm) << ", epoch " << epoch;
        }
        EXPECT_EQ(trainer.replays(), replay == GraphReplay::kOn);
      });
    }
  }
}

// Values that go to the host and come back are ordered by events, and their memory is taken once.
TEST_F(DeviceWaits, NoneForCopiesBesideComputing) {
  const std::filesystem::path dataset = make_sbm(dir_, false);
  for (const GraphReplay replay : {GraphReplay::kOff, GraphReplay::kOn}) {
    TrainOptions options = on_device(Norm::kBatch);
    options.model.layers = 5;
    options.model.offloading = kOffloadAll;
    options.cuda_graph = replay;
    run_local_ranks(1, 30, [&](Transport& transport) {
      RankJob job(transport, dataset, PartitionOptions{}, options);
      std::size_t waits = 0;
      std::int64_t allocations = 0;
      for (int epoch = 1; epoch <= kLast; ++epoch) {
        const std::size_t before = std::exchange(waits, cuda_emulation::host_waits());
        if (epoch == kFirst + 1) allocations = job.backend().allocations();
        if (epoch > kFirst + 1) {
          EXPECT_EQ(waits - before, 1U) << epoch;
        }
        job.trainer().run_epoch(epoch);
      }
      EXPECT_EQ(job.backend().allocations(), allocations);
      EXPECT_GT(job.trainer().network().host_bytes(), 0);
      EXPECT_EQ(job.trainer().replays(), replay == GraphReplay::kOn);
    });
  }
}

TEST_F(DeviceWaits, NoneForAStreamOverNccl) {
  constexpr int kRanks = 3;
  require_nccl_devices(kRanks);
  if (IsSkipped() || HasFailure()) return;
  const std::filesystem::path dataset = make_sbm(dir_, false);
  for (const GraphReplay replay : {GraphReplay::kOff, GraphReplay::kAuto}) {
    TrainOptions options = on_device(Norm::kBatch);
    options.messages = "nccl";
    options.cuda_graph = replay;
    run_local_ranks(kRanks, 30, [&](Transport& transport) {
      RankJob job(transport, dataset, PartitionOptions{}, options);
      Trainer& trainer = job.trainer();
      // Sums over ranks on the host: no rank is before or behind one.
      std::int64_t meet = 0;
      const auto all_meet = [&] { transport.all_reduce(std::span(&meet, 1), {"test"}); };
      std::size_t before = 0;
      for (int epoch = 1; epoch <= kLast; ++epoch) {
        if (epoch == kFirst) {
          all_meet();
          before = cuda_emulation::host_waits();
          all_meet();
        }
        trainer.run_epoch(epoch);
        trainer.evaluate(epoch);
      }
      all_meet();
      EXPECT_EQ(cuda_emulation::host_waits(), before);
      EXPECT_EQ(trainer.replays(), replay == GraphReplay::kAuto);
      all_meet();
    });
  }
}

}  // namespace
}  // namespace atl
