// How sums of gradients travel in a run (--gradient-sum): the numbers of another route, and the
// bits of its own wherever the run goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/training/checkpoint.hpp"
#include "engine/training/host_share.hpp"
#include "tests/engine/training/example_runs.hpp"
#include "tests/engine/training/loss_bounds.hpp"

namespace atl {
namespace {

// Ranks that are threads share a host: this is what a run on two hosts chooses.
TrainOptions on_two_hosts(TrainOptions options, int ranks) {
  options.gradient_sum = route_of_groups(ranks, ranks / 2);
  return options;
}

TEST(GradientRoute, OfOneHostIsAnAllReduce) {
  run_local_ranks(4, 30, [](Transport& transport) {
    EXPECT_TRUE(sum_route_of_hosts(transport).is_all_reduce());
  });
}

TEST(GradientRoute, ByHostsGivesTheSameNumbers) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, true);
  TrainOptions options = small_options();
  options.model.hidden = 80;  // so that some sums begin before backward ends
  const RunResult alone = run_epochs(dataset, 4, options, 1, 20);
  const RunResult by_hosts = run_epochs(dataset, 4, on_two_hosts(options, 4), 1, 20);
  EXPECT_NE(by_hosts.losses, alone.losses) << "they are rounded twice";
  for (const auto& [epoch, bound] :
       {std::pair{0, kSameParameters}, {1, kAfterFewSteps}, {19, kAfter20Epochs}}) {
    EXPECT_NEAR(by_hosts.losses[epoch], alone.losses[epoch], bound * alone.losses[epoch]) << epoch;
  }
  EXPECT_EQ(by_hosts.bytes, alone.bytes);
  expect_same_run(run_epochs(dataset, 4, on_two_hosts(options, 4), 1, 20), by_hosts);
}

class GradientRouteRuns : public RunsInFolders {};

// The ranks of the first run were on two hosts, those that go on are on one.
TEST_F(GradientRouteRuns, KeepTheirsWhereverTheyGoOn) {
  const TrainOptions options = small_options();
  run("whole", 6, false, on_two_hosts(options, 4), 4);
  run("half", 3, false, on_two_hosts(options, 4), 4);
  run("half", 6, true, options, 4);
  expect_same("half", "whole");
  run("plain", 6, false, options, 4);
  EXPECT_NE(lines("plain", "loss"), lines("whole", "loss"));
}

TEST_F(GradientRouteRuns, WithoutAPlanSayWhetherHostsMatter) {
  TrainOptions ranks = small_options();
  ranks.sum_choice = SumChoice::kRanks;
  run("asked", 3, false, on_two_hosts(small_options(), 4), 4);
  run("asked", 6, true, ranks, 4);
  run("plain", 3, false, small_options(), 4);
  EXPECT_NE(lines("asked", "loss")[2], lines("plain", "loss")[2]);
  const SafetensorsFile file = read_safetensors(*newest_checkpoint(dir_.path() / "asked"));
  const Json described = Json::parse(file.metadata.at("atoll checkpoint"));
  EXPECT_EQ(described.at("gradient_sum"), Json({{"by", "all-reduce"}}));
  EXPECT_EQ(described.at("ranks"), 4);
}

// Groups of other ranks mean nothing.
TEST_F(GradientRouteRuns, OfAnotherNumberOfRanksChooseTheirOwn) {
  run("fewer", 3, false, on_two_hosts(small_options(), 4), 4);
  run("fewer", 6, true, small_options(), 2);
  run("more", 6, false, small_options(), 2);
  const double loss = lines("more", "loss")[5].get<double>();
  EXPECT_NEAR(lines("fewer", "loss")[5].get<double>(), loss, kAfter20Epochs * loss);
}

}  // namespace
}  // namespace atl
