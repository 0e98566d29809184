// An evaluation's forward pass that the next epoch of training need not repeat.
#include <gtest/gtest.h>

#include "tests/engine/training/example_runs.hpp"

namespace atl {
namespace {

struct Outcome {
  std::vector<double> losses;
  std::int64_t products = 0;  // SpMM calls of the last epoch
  SafetensorsFile state;
};

// Four epochs, with an evaluation after each or none.
Outcome run(const std::filesystem::path& dataset, const TrainOptions& options, bool evaluating) {
  Outcome outcome;
  run_local_ranks(2, 30, [&](Transport& transport) {
    RankJob job(transport, dataset, PartitionOptions{}, options);
    std::vector<double> losses;
    for (int epoch = 1; epoch <= 3; ++epoch) {
      losses.push_back(job.trainer().run_epoch(epoch).loss);
      if (evaluating) job.trainer().evaluate(epoch);
    }
    EpochProfile profile;
    losses.push_back(job.trainer().profile_epoch(4, profile).loss);
    if (transport.rank() == 0) {
      outcome = {losses, profile.operations.at("spmm").calls, job.trainer().state(true)};
    }
  });
  return outcome;
}

TEST(SharedForward, GivesTheSameBitsWithLessWork) {
  const TempDir dir;
  for (const bool directed : {false, true}) {
    const std::filesystem::path dataset = make_sbm(dir, directed);
    for (const Norm norm : {Norm::kNone, Norm::kLayer}) {
      for (const char* model : {"gcn", "sage"}) {
        TrainOptions options = small_options();
        options.model.kind = model;
        options.model.norm = norm;
        options.model.dropout = 0;
        const Outcome alone = run(dataset, options, false);
        const Outcome shared = run(dataset, options, true);
        EXPECT_EQ(shared.losses, alone.losses) << model;
        EXPECT_TRUE(same_tensors(shared.state, alone.state)) << model;
        // Two ranges of rows, and sums that are sent, in each of the two layers after the first,
        // whose aggregate is kept.
        EXPECT_EQ(alone.products - shared.products, 6) << model;
      }
    }
  }
}

TEST(SharedForward, IsNotSharedWhereTrainingComputesSomethingElse) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, false);
  TrainOptions dropping = small_options();
  dropping.model.norm = Norm::kNone;
  TrainOptions batch_norm = small_options();
  batch_norm.model.dropout = 0;
  TrainOptions quantizing = small_options();
  quantizing.model.norm = Norm::kNone;
  quantizing.model.dropout = 0;
  quantizing.exchange = "quantized";
  quantizing.message_bits.bits = parse_bits("4");
  for (const TrainOptions& options : {dropping, batch_norm, quantizing}) {
    const Outcome alone = run(dataset, options, false);
    const Outcome evaluated = run(dataset, options, true);
    EXPECT_EQ(evaluated.losses, alone.losses);
    EXPECT_EQ(evaluated.products, alone.products);
  }
}

TEST(SharedForward, EndsWhenOtherWeightsAreLoaded) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, false);
  TrainOptions options = small_options();
  options.model.norm = Norm::kNone;
  options.model.dropout = 0;
  run_local_ranks(1, 30, [&](Transport& transport) {
    RankJob job(transport, dataset, PartitionOptions{}, options);
    const SafetensorsFile start = job.trainer().state(true);
    const double first = job.trainer().run_epoch(1).loss;
    job.trainer().evaluate(1);
    job.trainer().load_state(start, true, "start");
    EXPECT_EQ(job.trainer().run_epoch(1).loss, first);
  });
}

}  // namespace
}  // namespace atl
