// Values that wait for backward in host memory while a device computes: the same bits as without,
// on one rank and several, queued and replayed, and nothing reads a place after its value has left
// it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "engine/program/operations/rules.hpp"
#include "engine/training/host_share.hpp"
#include "tests/engine/training/example_runs.hpp"
#include "tests/support/require_device.hpp"
#include "tests/support/require_nccl.hpp"

namespace atl {
namespace {

class DeviceOffload : public ::testing::Test {
 protected:
  void SetUp() override { require_backend("cuda"); }

  std::filesystem::path make_small(bool directed, double degree = 10) const {
    return make_sbm(dir_, directed, /*nodes=*/150, degree);
  }

  TempDir dir_;
};

// Six layers, so that some store, some wait, and some have nothing to store.
TrainOptions deep_options(const std::string& kind, DType dtype) {
  TrainOptions options = small_options();
  options.backend = "cuda";
  options.model.kind = kind;
  options.model.layers = 6;
  options.model.dtype = dtype;
  if (kind == "gat") options.model.heads = 2;
  if (kind == "gcnii") options.model.norm = Norm::kNone;
  return options;
}

int stores_of(const Program& program) {
  return static_cast<int>(std::ranges::count(program.operations, &rules::kStore, &Operation::rule));
}

// Kind of model, type of its values, ranks.
using OffloadedModel = std::tuple<std::string, DType, int>;

class DeviceOffloadOfModels : public DeviceOffload,
                              public ::testing::WithParamInterface<OffloadedModel> {};

TEST_P(DeviceOffloadOfModels, ChangesNoBitOfAModelNorOfItsState) {
  const auto& [kind, dtype, ranks] = GetParam();
  const std::filesystem::path dataset = make_small(true);
  TrainOptions options = deep_options(kind, dtype);
  const RunResult plain = run_epochs(dataset, ranks, options, 1, 5);
  for (const Offloading& offloading : {Offloading{2}, kOffloadAll}) {
    options.model.offloading = offloading;
    const RunResult found = run_epochs(dataset, ranks, options, 1, 5);
    expect_same_run(found, plain);
    EXPECT_EQ(found.bytes, plain.bytes);
    EXPECT_EQ(found.replayed, plain.replayed);
    EXPECT_EQ(found.replayed, ranks == 1 || ranks <= nccl_devices());
  }
}

INSTANTIATE_TEST_SUITE_P(Models, DeviceOffloadOfModels,
                         ::testing::Combine(::testing::Values("gcn", "sage", "gcnii", "gat"),
                                            ::testing::Values(DType::kF32, DType::kBf16),
                                            ::testing::Values(1, 3)),
                         [](const auto& test) {
                           return std::get<0>(test.param) + "_" +
                                  to_string(std::get<1>(test.param)) + "_" +
                                  std::to_string(std::get<2>(test.param));
                         });

// Queued epochs, recorded ones, and those whose messages are waited for at once.
void expect_same_recorded(const std::filesystem::path& dataset, int ranks) {
  for (const char* kind : {"gcn", "gat"}) {
    TrainOptions options = deep_options(kind, DType::kF32);
    options.messages = ranks == 1 ? "auto" : "nccl";
    options.cuda_graph = GraphReplay::kOff;
    const RunResult plain = run_epochs(dataset, ranks, options, 1, 5);
    options.model.offloading = kOffloadAll;
    const RunResult queued = run_epochs(dataset, ranks, options, 1, 5);
    EXPECT_FALSE(queued.replayed);
    expect_same_run(queued, plain);
    options.cuda_graph = GraphReplay::kOn;
    const RunResult replayed = run_epochs(dataset, ranks, options, 1, 5);
    EXPECT_TRUE(replayed.replayed);
    expect_same_run(replayed, plain);
    options.cuda_graph = GraphReplay::kOff;
    options.overlap = false;
    expect_same_run(run_epochs(dataset, ranks, options, 1, 5), plain);
  }
}

TEST_F(DeviceOffload, IsRecordedAndReplayed) { expect_same_recorded(make_small(true), 1); }

TEST_F(DeviceOffload, IsRecordedAndReplayedOverNccl) {
  constexpr int kRanks = 3;
  require_nccl_devices(kRanks);
  if (IsSkipped() || HasFailure()) return;
  expect_same_recorded(make_small(true), kRanks);
}

TEST_F(DeviceOffload, GoesOnFromAStateOfEitherKind) {
  const std::filesystem::path dataset = make_small(false);
  for (const int ranks : {1, 3}) {
    TrainOptions plain = deep_options("gcnii", DType::kF32);
    TrainOptions offloading = plain;
    offloading.model.offloading = kOffloadAll;
    const RunResult whole = run_epochs(dataset, ranks, plain, 1, 6);
    const RunResult half = run_epochs(dataset, ranks, offloading, 1, 3);
    for (const TrainOptions& options : {plain, offloading}) {
      const RunResult rest = run_epochs(dataset, ranks, options, 4, 6, half.state);
      EXPECT_TRUE(same_tensors(whole.state, rest.state));
    }
  }
}

// Together with values that are computed again.
TEST_F(DeviceOffload, StoresWhatIsKeptWhereOthersAreDropped) {
  const std::filesystem::path dataset = make_small(true);
  for (const int ranks : {1, 3}) {
    TrainOptions options = deep_options("gcn", DType::kF32);
    options.model.layers = 8;
    const RunResult plain = run_epochs(dataset, ranks, options, 1, 5);
    options.model.offloading = kOffloadAll;
    for (const bool keeps : {true, false}) {
      options.model.dropping = {.last_run = 2, .keeps_aggregates = keeps};
      expect_same_run(run_epochs(dataset, ranks, options, 1, 5), plain);
    }
  }
}

// An evaluation runs training's forward pass where both compute the same, copies and all.
TEST_F(DeviceOffload, SharesItsForwardPassWithEvaluations) {
  const std::filesystem::path dataset = make_small(false);
  TrainOptions options = deep_options("gcn", DType::kF32);
  options.model.norm = Norm::kLayer;
  options.model.dropout = 0;
  const RunResult plain = run_epochs(dataset, 1, options, 1, 4);
  options.model.offloading = kOffloadAll;
  run_local_ranks(1, 30, [&](Transport& transport) {
    RankJob job(transport, dataset, PartitionOptions{}, options);
    EXPECT_TRUE(job.trainer().network().trains_as_it_evaluates());
    for (int epoch = 1; epoch <= 4; ++epoch) {
      EXPECT_EQ(job.trainer().run_epoch(epoch).loss,
                plain.losses[static_cast<std::size_t>(epoch - 1)]);
      job.trainer().evaluate(epoch);
    }
    EXPECT_TRUE(same_tensors(job.trainer().state(true), plain.state));
  });
}

// Places are filled with NaN, in the order of the queue, as soon as their values are dead: a copy
// that nobody waits for, or a place that is given away too early, would show in every gradient.
TEST_F(DeviceOffload, ReadsNothingFromPlacesThatValuesHaveLeft) {
  const std::filesystem::path dataset = make_small(true);
  for (const char* kind : {"gcn", "sage", "gcnii", "gat"}) {
    for (const int ranks : {1, 3}) {
      run_local_ranks(ranks, 30, [&](Transport& transport) {
        RankJob job(transport, dataset, PartitionOptions{}, deep_options(kind, DType::kF32));
        const Rank& rank = job.trainer().rank();
        const auto gradients = [&](const Offloading& offloading, bool poisons) {
          ModelConfig config = job.trainer().model();
          config.offloading = offloading;
          Network network(
              model_program(config, Pass::kTraining), model_program(config, Pass::kEvaluation),
              {.poisons_dead_values = poisons}, rank, job.data().graph(), job.data().features());
          EXPECT_EQ(stores_of(network.training()) > 0, offloading.any());
          EXPECT_EQ(network.host_bytes() > 0, offloading.any());
          const auto exchange = make_exchange({}, rank);
          exchange->keep_alive(network.memory());
          network.allocate();
          Loss loss(rank.backend, job.data().targets(), job.data().loss_total(Split::kTrain));
          for (const int epoch : {1, 2}) {
            const Round round{.epoch = epoch, .training = true, .overlap = true};
            network.run_forward(*exchange, round);
            network.run_backward(*exchange, round, loss);
          }
          return download_f32(rank.backend, rank.queue, network.parameters().gradients());
        };
        const std::vector<float> plain = gradients({}, /*poisons=*/false);
        for (const Offloading& offloading : {Offloading{}, Offloading{2}, kOffloadAll}) {
          EXPECT_EQ(gradients(offloading, /*poisons=*/true), plain) << kind;
        }
      });
    }
  }
}

// Where a layer computes long, copies hide behind it; where it is short, it is computed again.
TEST_F(DeviceOffload, IsChosenWhereItTakesLessTime) {
  for (const double degree : {2.0, 100.0}) {
    const std::filesystem::path dataset = make_small(false, degree);
    for (const int ranks : {1, 3}) {
      run_local_ranks(ranks, 30, [&](Transport& transport) {
        TrainOptions options = deep_options("gcnii", DType::kF32);
        options.model.layers = 24;
        std::int64_t least = 0;
        std::int64_t whole = 0;
        {
          RankJob job(transport, dataset, PartitionOptions{}, options);
          whole = job.trainer().bytes_needed() + job.data().bytes();
          ModelConfig config = job.trainer().model();
          config.offloading = kOffloadAll;
          const Network& network = job.trainer().network();
          least = whole - network.value_bytes() +
                  network.value_bytes(model_program(config, Pass::kTraining));
        }
        std::array<std::int64_t, 2> most{least, whole};
        for (std::int64_t& bytes : most) {
          std::vector<std::int64_t> all(static_cast<std::size_t>(ranks), 0);
          all[static_cast<std::size_t>(transport.rank())] = bytes;
          transport.all_reduce(std::span(all), {"test"});
          bytes = *std::ranges::max_element(all);
        }
        // Either way saves ten times as much as this asks for.
        options.model.memory = fmt::format("{}B", most[1] - (most[1] - most[0]) / 10);
        RankJob job(transport, dataset, PartitionOptions{}, options);
        const ModelConfig& model = job.trainer().model();
        EXPECT_EQ(model.offloading.any(), degree == 100.0) << degree << ", " << ranks;
        EXPECT_EQ(model.dropping.any(), degree != 100.0) << degree << ", " << ranks;
        EXPECT_LT(model.offloading.layers, 12);
        EXPECT_LE(job.trainer().bytes_needed() + job.data().bytes(), most[1]);
        options.model.offload = OffloadChoice::kOff;
        RankJob without(transport, dataset, PartitionOptions{}, options);
        EXPECT_FALSE(without.trainer().model().offloading.any());
      });
    }
  }
}

// Pinned memory is held against the memory of the host, of all its ranks together.
TEST_F(DeviceOffload, NeedsMemoryOfTheHost) {
  run_local_ranks(3, 30, [&](Transport& transport) {
    EXPECT_TRUE(has_pinned_memory(transport, 1 << 20));
    require_pinned_memory(transport, 1 << 20);
    const std::int64_t far_too_much = std::int64_t{1} << 60;
    const std::int64_t need = transport.rank() == 1 ? far_too_much : 0;
    EXPECT_FALSE(has_pinned_memory(transport, need));
    try {
      require_pinned_memory(transport, need);
      ADD_FAILURE() << "not thrown";
    } catch (const TooLittleMemory& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("of pinned memory for values that wait"));
    }
  });
}

}  // namespace
}  // namespace atl
