// Runs that begin without messages: which bits both phases have, across a resume, and what is
// refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/training/checkpoint.hpp"
#include "engine/training/rank_files.hpp"
#include "tests/engine/training/block_options.hpp"
#include "tests/engine/training/example_runs.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

using ::testing::HasSubstr;

class LocalPhase : public RunsInFolders {
 protected:
  void SetUp() override { write_json(slow_, slow_calibration(3)); }

  TrainOptions options(const std::string& exchange = kExactMode) const {
    TrainOptions options = small_options();
    options.model.dropout = 0.3;
    options.optimizer.epochs = 12;
    options.exchange = exchange;
    if (const char* bits = exchange_mode(exchange).usual_bits) {
      options.message_bits.bits = parse_bits(bits);
      options.message_bits.reassign_every = 2;
      if (options.message_bits.bits.by == BitChoice::By::kAdaptive) options.calibration = slow_;
    }
    return options;
  }
  TrainOptions local_options(const std::string& exchange, int until) const {
    TrainOptions local = options(exchange);
    local.local_until.epoch = until;
    return local;
  }

  // Stopped at some epochs, and gone on from there.
  void expect_resumable(const std::string& whole, int epochs, const std::vector<int>& stops,
                        const TrainOptions& options, int ranks = 2) const {
    run(whole, epochs, false, options, ranks);
    for (const int stop : stops) {
      const std::string name = fmt::format("{}-{}", whole, stop);
      run(name, stop, false, options, ranks);
      run(name, epochs, true, options, ranks);
      expect_same(name, whole);
    }
  }

  std::filesystem::path slow_ = dir_.path() / "slow.json";
};

std::vector<double> part_of(const std::vector<double>& values, int begin, int end) {
  return {values.begin() + begin, values.begin() + end};
}

// Up to the switch the bits are those without messages, and from there on those of another run that
// begins with these weights.
TEST_F(LocalPhase, IsFollowedByAnOrdinaryRunFromItsWeights) {
  for (const std::string exchange : {"exact", "quantized", "one-bit", "stale", "sampled",
                                     "periodic", "skip", "compensated", "unified"}) {
    const RunResult none = run_epochs(dataset_, 2, options("none"), 1, 3);
    const RunResult later = run_epochs(dataset_, 2, options(exchange), 4, 12, none.state);
    const RunResult found = run_epochs(dataset_, 2, local_options(exchange, 3), 1, 12);
    EXPECT_EQ(part_of(found.losses, 0, 3), none.losses) << exchange;
    EXPECT_EQ(part_of(found.losses, 3, 12), later.losses) << exchange;
    EXPECT_TRUE(same_tensors(found.state, later.state)) << exchange;
    EXPECT_NE(found.losses[4], run_epochs(dataset_, 2, options("none"), 1, 5).losses[4]);
    for (int epoch = 0; epoch < 3; ++epoch) EXPECT_TRUE(found.assignments[epoch].is_null());
    for (int epoch = 3; epoch < 12; ++epoch) {
      const auto bits = [](const Json& assignment) {
        return assignment.is_null() ? Json() : assignment.at("mean_bits");
      };
      EXPECT_EQ(bits(found.assignments[epoch]), bits(later.assignments[epoch - 3]))
          << exchange << ", epoch " << epoch;
    }
  }
}

TEST_F(LocalPhase, MeasuresWidthsAfterTheSwitch) {
  for (const std::string exchange : {"quantized", "unified"}) {
    const RunResult found = run_epochs(dataset_, 2, local_options(exchange, 3), 1, 10);
    std::vector<double> bits;
    for (int epoch = 3; epoch < 8; ++epoch) {
      bits.push_back(found.assignments[epoch].at("mean_bits"));
    }
    EXPECT_EQ(bits, (std::vector<double>{4, 32, 1, 32, 8})) << exchange;
    EXPECT_TRUE(found.assignments[8].contains("gap")) << exchange;
  }
}

TEST_F(LocalPhase, SendsNothingButSums) {
  const RunResult none = run_epochs(dataset_, 2, options("none"), 1, 4);
  const RunResult exact = run_epochs(dataset_, 2, options(), 1, 4);
  const RunResult found = run_epochs(dataset_, 2, local_options(kExactMode, 2), 1, 4);
  EXPECT_EQ(std::vector(found.bytes.begin(), found.bytes.begin() + 2),
            std::vector(none.bytes.begin(), none.bytes.begin() + 2));
  EXPECT_LT(none.bytes[1], exact.bytes[1]);
  // The first epoch has sent what is kept.
  EXPECT_EQ(found.bytes[2], exact.bytes[2]);
  // The bytes of a job are those of its widest phase.
  const auto needed = [&](const TrainOptions& options) {
    std::int64_t bytes = 0;
    run_local_ranks(2, 30, [&](Transport& transport) {
      RankJob job(transport, dataset_, {}, options);
      if (transport.rank() == 0) bytes = job.trainer().bytes_needed();
    });
    return bytes;
  };
  EXPECT_EQ(needed(local_options("compensated", 2)), needed(options("compensated")));
  EXPECT_LT(needed(options("none")), needed(options("compensated")));
}

struct CutResult {
  std::vector<double> losses;
  std::vector<int> cuts;
  std::vector<double> valid;
  SafetensorsFile state;
};

// Each epoch on the cut that is its own.
CutResult run_on_cuts(const std::filesystem::path& dataset, const TrainOptions& options, int first,
                      int last, const SafetensorsFile& start = {}) {
  CutResult result;
  run_local_ranks(3, 30, [&](Transport& transport) {
    RankJob job(transport, dataset, {}, options);
    if (!start.tensors.empty()) job.trainer().load_state(start, true, "start");
    CutResult own;
    for (int epoch = first; epoch <= last; ++epoch) {
      const EpochResult found = job.run_epoch(epoch);
      own.losses.push_back(found.loss);
      own.cuts.push_back(found.cut ? found.cut->number : -1);
      own.valid.push_back(job.trainer().evaluate(epoch).valid_loss);
    }
    EXPECT_TRUE(job.data().node_weights().empty() || own.cuts.back() > 0);
    own.state = job.trainer().state(true);
    if (transport.rank() == 0) result = std::move(own);
  });
  return result;
}

TEST_F(LocalPhase, MakesNewCutsAndGoesBackToThePartition) {
  const auto with_cuts = [](TrainOptions options) {
    options.repartition_every = 2;
    options.coverage_weights = true;
    return options;
  };
  const CutResult none = run_on_cuts(dataset_, with_cuts(options("none")), 1, 5);
  const CutResult found = run_on_cuts(dataset_, with_cuts(local_options("compensated", 5)), 1, 9);
  EXPECT_EQ(found.cuts, (std::vector{0, 0, 1, 1, 2, 0, 0, 0, 0}));
  const CutResult later = run_on_cuts(dataset_, options("compensated"), 6, 9, none.state);
  EXPECT_EQ(part_of(found.losses, 0, 5), none.losses);
  EXPECT_EQ(part_of(found.valid, 0, 5), none.valid);
  EXPECT_EQ(part_of(found.losses, 5, 9), later.losses);
  EXPECT_EQ(part_of(found.valid, 5, 9), later.valid);
  EXPECT_TRUE(same_tensors(found.state, later.state));
}

TEST_F(LocalPhase, NoticesThatTheDatasetChangedBeforeTheSwitch) {
  TrainOptions own = local_options(kExactMode, 2);
  own.repartition_every = 1;
  const Error error = thrown_error([&] {
    run_local_ranks(2, 30, [&](Transport& transport) {
      RankJob job(transport, dataset_, PartitionOptions{}, own);
      job.run_epoch(1);
      job.run_epoch(2);
      transport.barrier({"the second cut"});
      if (transport.rank() == 0) {
        std::filesystem::rename(dataset_, dir_.path() / "before");
        std::filesystem::rename(make_sbm(dir_, true, 500), dataset_);
      }
      transport.barrier({"another dataset"});
      job.run_epoch(3);
    });
  });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_THAT(error.what(), HasSubstr("the dataset changed since the run began"));
}

// On blocks, the phase is one of both.
TEST_F(LocalPhase, OfBlocksIsFollowedByTheWholeGraphWithMessages) {
  const auto on_blocks = [](TrainOptions options) {
    options.blocks.count.number = 3;
    return options;
  };
  const RunResult none = run_epochs(dataset_, 2, on_blocks(options("none")), 1, 2);
  TrainOptions whole = on_blocks(options("compensated"));
  whole.blocks.until.epoch = 2;  // its own blocks are never trained on
  const RunResult later = run_epochs(dataset_, 2, whole, 3, 6, none.state);
  const TrainOptions local = on_blocks(local_options("compensated", 2));
  EXPECT_NO_THROW(check_options(local));
  const RunResult found = run_epochs(dataset_, 2, local, 1, 6);
  EXPECT_EQ(part_of(found.losses, 0, 2), none.losses);
  EXPECT_EQ(part_of(found.losses, 2, 6), later.losses);
  EXPECT_TRUE(same_tensors(found.state, later.state));
  expect_resumable("blocks", 5, {1, 2, 3}, local);
  EXPECT_EQ(lines("blocks", "steps"), (std::vector<Json>{3, 3, nullptr, nullptr, nullptr}));
}

TEST_F(LocalPhase, HasARateOfItsOwn) {
  TrainOptions rated = local_options("compensated", 2);
  rated.switching.rate_after = 0.002;
  TrainOptions lower = options("compensated");
  lower.optimizer.learning_rate = 0.002;
  const RunResult none = run_epochs(dataset_, 2, options("none"), 1, 2);
  const RunResult later = run_epochs(dataset_, 2, lower, 3, 5, none.state);
  EXPECT_TRUE(same_tensors(run_epochs(dataset_, 2, rated, 1, 5).state, later.state));
}

TEST_F(LocalPhase, GoesOnBitForBit) {
  for (const std::string exchange : {"exact", "compensated", "unified"}) {
    expect_resumable(exchange, 11, {1, 3, 4, 9}, local_options(exchange, 3));
    std::vector<Json> last(11, nullptr);
    last[2] = true;
    EXPECT_EQ(lines(exchange, "last_before_switch"), last);
  }
  TrainOptions cuts = local_options("compensated", 5);
  cuts.repartition_every = 2;
  cuts.coverage_weights = true;
  expect_resumable("cuts", 8, {2, 4, 5, 6, 7}, cuts, 3);
  EXPECT_EQ(lines("cuts", "cut"), (std::vector<Json>{0, 0, 1, 1, 2, 0, 0, 0}));
  std::vector<bool> made;
  for (const Json& ms : lines("cuts", "cut_ms")) made.push_back(!ms.is_null());
  EXPECT_EQ(made, (std::vector{false, false, true, false, true, true, false, false}));
  // Ranks keep rows of messages, but not before there are any.
  const auto has_rows = [&](const std::string& name, int epoch) {
    return std::filesystem::exists(RankFile{epoch, 2, 3}.in(dir_.path() / name));
  };
  EXPECT_TRUE(has_rows("cuts", 8));
  run("before", 5, false, cuts, 3);
  EXPECT_EQ(newest_checkpoint_epoch(dir_.path() / "before"), 5);
  EXPECT_FALSE(has_rows("before", 5));
  EXPECT_EQ(read_json(dir_.path() / "cuts/summary.json").at("mean_bits"), 2);
}

// Nothing is learned at such a rate, so that no evaluation after the first one is better.
TEST_F(LocalPhase, EndsWhenTheValidMetricHasStalled) {
  TrainOptions stalled = options("compensated");
  stalled.model.norm = Norm::kNone;
  stalled.optimizer.learning_rate = 1e-12;
  stalled.local_until.by_accuracy = true;
  stalled.switching = {.patience = 2, .rate_after = 0.02};
  stalled.repartition_every = 2;
  expect_resumable("stalled", 7, {1, 2, 3, 4}, stalled, 3);
  EXPECT_EQ(lines("stalled", "last_before_switch"),
            (std::vector<Json>{nullptr, nullptr, true, nullptr, nullptr, nullptr, nullptr}));
  EXPECT_EQ(lines("stalled", "cut"), (std::vector<Json>{0, 0, 1, 0, 0, 0, 0}));
  const std::vector<Json> losses = lines("stalled", "loss");
  EXPECT_LT(losses[6].get<double>(), 0.95 * losses[3].get<double>());
  const std::filesystem::path file = newest_checkpoint(dir_.path() / "stalled").value();
  const std::string described =
      parse_safetensors(std::as_bytes(std::span<const char>(read_text(file))), file)
          .metadata.at("atoll checkpoint");
  EXPECT_EQ(Json::parse(described).at("last_before_switch"), 3);
  // The same as with the number of that epoch.
  stalled.local_until = {.epoch = 3};
  stalled.switching.patience = SwitchOptions().patience;
  run("numbered", 7, false, stalled, 3);
  EXPECT_EQ(lines("numbered", "loss"), losses);
}

TEST_F(LocalPhase, IsRefusedUnderAnotherEnd) {
  run("other", 2, false, local_options(kExactMode, 4));
  const Error error = thrown_error([&] { run("other", 6, true, local_options(kExactMode, 5)); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_THAT(error.what(), HasSubstr("local-until"));
}

TEST_F(LocalPhase, RefusesWhatItCanNot) {
  const auto message = [&](const std::function<void(TrainOptions&)>& change) {
    TrainOptions own = local_options("quantized", 3);
    change(own);
    const Error error = thrown_error([&] { check_options(own); });
    EXPECT_EQ(error.kind(), ErrorKind::kOption);
    return std::string(error.what());
  };
  EXPECT_THAT(message([](TrainOptions& o) { o.exchange = "none"; }),
              HasSubstr("--local-until 3: --exchange none found"));
  EXPECT_THAT(message([](TrainOptions& o) { o.trace = true; }), HasSubstr("--local-until"));
  EXPECT_THAT(message([](TrainOptions& o) { o.switching.patience = 5; }),
              HasSubstr("--switch-patience 5: --local-until 3 found"));
  EXPECT_THAT(message([](TrainOptions& o) { o.coverage_weights = true; }),
              HasSubstr("--coverage-weights on"));
  EXPECT_THAT(message([](TrainOptions& o) {
                o.local_until = {.by_accuracy = true};
                o.eval_every = 0;
              }),
              HasSubstr("--local-until accuracy: needs evaluations"));
  EXPECT_THAT(message([](TrainOptions& o) {
                o.blocks.count.number = 4;
                o.blocks.until.epoch = 2;
              }),
              HasSubstr("--blocks-until 2: --local-until 3 found"));
  EXPECT_THAT(message([](TrainOptions& o) {
                o.blocks.count.number = 4;
                o.repartition_every = 2;
              }),
              HasSubstr("--blocks 4: --repartition-every found"));
  TrainOptions recomputing = local_options(kExactMode, 3);
  recomputing.model.recompute_all = true;
  const Error error = thrown_error([&] { run_epochs(dataset_, 2, recomputing, 1, 1); });
  EXPECT_EQ(error.kind(), ErrorKind::kOption);
  EXPECT_THAT(error.what(), HasSubstr("--local-until 3: ranks that compute rows of others"));
}

}  // namespace
}  // namespace atl
