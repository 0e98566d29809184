// Learning rates that whoever is asked after an epoch sets in mid-run.
#include <gmock/gmock.h>

#include "engine/training/training_run.hpp"
#include "tests/engine/training/example_runs.hpp"

namespace atl {
namespace {

namespace fs = std::filesystem;

class RatesInMidRun : public ::testing::Test {
 protected:
  // Up to that epoch, after the second of which the rate becomes a tenth.
  std::vector<double> losses(const std::string& name, int epochs, TrainOptions options,
                             double rate = 0.001) const {
    const fs::path run = dir_.path() / name;
    options.run_dir = run;
    options.start = fs::exists(run) ? RunStart::kResume : RunStart::kFresh;
    options.checkpoint_every = 1;
    options.optimizer.epochs = epochs;
    run_local_ranks(2, 30, [&](Transport& transport) {
      TrainOptions own = options;
      const auto folder = open_run_folder(transport, own);
      RankJob job(transport, dataset_, {}, own);
      RunDescription description{{}, "commit", dataset_.string()};
      description.after_epoch = [&](const std::string& line) {
        AfterEpoch after;
        if (Json::parse(line).at("epoch") == 2) after.learning_rate = rate;
        return after;
      };
      train(own, description, job, transport, *folder);
    });
    std::vector<double> found;
    for (const Json& line : metrics_of(run)) {
      found.push_back(line.at("loss"));
      EXPECT_EQ(line.contains("lr"), line.at("epoch") > 2);
    }
    return found;
  }

  TempDir dir_;
  fs::path dataset_ = make_sbm(dir_, false);
};

TEST_F(RatesInMidRun, AreThoseOfTheOptionsFromTheBeginning) {
  TrainOptions options = small_options();
  const auto changed = losses("changed", 6, options, 0.003);
  const auto same = losses("same", 6, options, options.optimizer.learning_rate);
  EXPECT_EQ(changed[2], same[2]);  // before that epoch's step
  EXPECT_NE(changed[3], same[3]);
  // Parameters of a group keep their proportion.
  options.optimizer.parameter_groups = "*: lr=0.02";
  options.optimizer.learning_rate = 0.01;
  const auto grouped = losses("grouped", 6, options, 0.003);
  options.optimizer.parameter_groups = "";
  options.optimizer.learning_rate = 0.02;
  EXPECT_EQ(losses("plain", 6, options, 0.006), grouped);
}

TEST_F(RatesInMidRun, GoOnInResumedRunsAndOtherCuts) {
  TrainOptions options = small_options();
  options.optimizer.parameter_groups = "layers.0.*: lr=0.03";
  for (const bool cuts : {false, true}) {
    const std::string name = cuts ? "cuts" : "cut";
    if (cuts) {
      options.exchange = "none";
      options.repartition_every = 2;
    }
    const auto whole = losses(name + "-whole", 8, options);
    for (const int stop : {2, 3, 6}) {
      const std::string parts = fmt::format("{}-{}", name, stop);
      losses(parts, stop, options);
      EXPECT_EQ(losses(parts, 8, options), whole) << parts;
    }
  }
}

}  // namespace
}  // namespace atl
