#include "launch/schedule/job_speeds.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "datasets/generate.hpp"
#include "datasets/partition_folder.hpp"
#include "engine/placement/simulated_epoch.hpp"
#include "tests/engine/placement/small_topology.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

using ::testing::HasSubstr;

// Jobs by number: 0 and 1 differ in the seed, 2 is evaluated at its end alone, 3 has messages of
// 8 bits, 4 needs more memory than a rank has, and 5 shares its parts in groups of two ranks.
constexpr const char* kList = R"(
[options]
layers = 2
hidden = 16
norm = "batch"
dropout = 0.5
epochs = 40
[[group]]
name = "sbm"
dataset = "DATA"
seeds = "1-2"
modes = { exact = { eval-every = 2 } }
[[group]]
name = "others"
dataset = "DATA"
seeds = 1
arrival = 5
least-ranks = 2
most-ranks = 3
priority = 2
modes.end = { eval-every = 0, epochs = 50, lr = 0.1 }
modes.eight = { bits = 8, eval-every = 2 }
modes.large = { hidden = 40000 }
modes.groups = { group-ranks = 2 }
)";

class JobSpeedsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    home_ = new TempDir();
    GenerateOptions options;
    options.out = home_->path() / "data";
    options.nodes = 3000;
    options.classes = 4;
    options.features = 20;
    generate_dataset("sbm", options);
  }
  static void TearDownTestSuite() {
    delete home_;
    home_ = nullptr;
  }

  static std::filesystem::path data() { return home_->path() / "data"; }
  std::filesystem::path list() const { return folder_.path() / "list.toml"; }
  std::vector<ListedJob> listed(std::string text) const {
    for (std::size_t at = 0; (at = text.find("DATA")) != std::string::npos;) {
      text.replace(at, 4, data().string());
    }
    std::ofstream(list()) << text;
    return read_job_list(list());
  }
  SimulatedSpeeds speeds(const std::filesystem::path& table = {}) const {
    return SimulatedSpeeds({.trainings = read_trainings(listed(kList), list()),
                            .topology = topology_,
                            .table = table});
  }
  std::string refusal(const std::string& group) const {
    const std::string text = "[[group]]\nname = \"g\"\ndataset = \"DATA\"\nseeds = 1\n" + group;
    const Error error = thrown_error([&] { read_trainings(listed(text), list()); });
    EXPECT_THAT(error.what(), HasSubstr("list.toml: group 'g': "));
    return error.what();
  }

  static TempDir* home_;
  TempDir folder_;
  Topology topology_ = small_topology(3, 2, 1e8, 1e-5);
};

TempDir* JobSpeedsTest::home_ = nullptr;

TEST_F(JobSpeedsTest, ReadsWhatJobsNeed) {
  const std::vector<ListedJob> jobs = listed(kList);
  const ScheduledTrainings trainings = read_trainings(jobs, list());
  ASSERT_EQ(trainings.jobs.size(), 6U);
  EXPECT_EQ(trainings.jobs[0].training, trainings.jobs[1].training);
  // Neither length nor learning rate nor the number of evaluations changes an epoch.
  EXPECT_EQ(trainings.jobs[0].training, trainings.jobs[2].training);
  EXPECT_NE(trainings.jobs[0].training, trainings.jobs[3].training);
  EXPECT_EQ(trainings.trainings.size(), 4U);
  EXPECT_EQ(trainings.jobs[0].evaluations, 20);
  EXPECT_EQ(trainings.jobs[2].evaluations, 1);
  EXPECT_EQ(trainings.jobs[2].epochs, 50);
  const auto needs = schedulable_jobs(jobs, trainings, 6, list());
  EXPECT_EQ(needs[0].name, "sbm, exact, seed 1");
  EXPECT_EQ(needs[0].epochs, 40);
  EXPECT_EQ(needs[0].most_ranks, 6) << "all slots";
  EXPECT_EQ(needs[2].arrival_s, 5);
  EXPECT_EQ(needs[2].least_ranks, 2);
  EXPECT_EQ(needs[2].most_ranks, 3);
  EXPECT_EQ(needs[2].priority, 2);
  EXPECT_THAT(thrown_error([&] { schedulable_jobs(jobs, trainings, 1, list()); }).what(),
              HasSubstr("group 'others': least-ranks is 2; allowed are 1 to 1"));
}

TEST_F(JobSpeedsTest, RefusesWhatAScheduleDecides) {
  for (const char* option :
       {"ranks = 2", "transport = \"local\"", "plan = \"p.json\"", "snapshot-every = 3"}) {
    EXPECT_THAT(refusal("modes = { a = { " + std::string(option) + " } }\n"),
                HasSubstr("has no place in a schedule"))
        << option;
  }
  EXPECT_THAT(refusal("launcher = \"mpirun -n 2\"\nmodes = { a = {} }\n"),
              HasSubstr("launcher: 'mpirun -n 2'"));
  EXPECT_THAT(refusal("modes = { a = { layer = 2 } }\n"), HasSubstr("--layer"));
  EXPECT_THAT(refusal("modes = { a = { epochs = 0 } }\n"), HasSubstr("--epochs"));
}

TEST_F(JobSpeedsTest, AddTheShareOfEvaluations) {
  SimulatedSpeeds of_jobs = speeds();
  const JobPlacement pair{{0}, 2};
  const double half = of_jobs.epoch_s(0, pair);  // evaluated in every second epoch
  const double fiftieth = of_jobs.epoch_s(2, pair);
  EXPECT_EQ(half, of_jobs.epoch_s(1, pair));
  EXPECT_EQ(of_jobs.simulated(), 1);
  const double evaluation = (half - fiftieth) / (0.5 - 0.02);
  const double epoch = half - evaluation / 2;
  // A forward pass is a third of an epoch, give or take what is done beside the products.
  EXPECT_GT(evaluation, 0.15 * epoch);
  EXPECT_LT(evaluation, 0.5 * epoch);
}

TEST_F(JobSpeedsTest, ArePartOfTheMachine) {
  SimulatedSpeeds of_jobs = speeds();
  EXPECT_LT(of_jobs.epoch_s(0, {{0}, 2}), of_jobs.epoch_s(0, {{0}, 1}));
  // Two ranks of one host need no card.
  EXPECT_LT(of_jobs.epoch_s(0, {{1}, 2}), of_jobs.epoch_s(0, {{1, 2}, 1}));
  const int before = of_jobs.simulated();
  EXPECT_EQ(of_jobs.epoch_s(0, {{0, 1}, 1}), of_jobs.epoch_s(0, {{1, 2}, 1}));
  EXPECT_EQ(of_jobs.epoch_s(0, {{2}, 2}), of_jobs.epoch_s(0, {{0}, 2}));
  EXPECT_EQ(of_jobs.simulated(), before) << "hosts are alike";
  EXPECT_EQ(of_jobs.refusal(0), "");
}

TEST_F(JobSpeedsTest, FillCards) {
  SimulatedSpeeds of_jobs = speeds();
  const JobPlacement two{{0, 2}, 1};
  const std::vector<double> shares = of_jobs.card_shares(2, two);
  ASSERT_EQ(shares.size(), 2U);
  // Each of two hosts receives what the other one sends.
  EXPECT_DOUBLE_EQ(shares[0], shares[1]);
  EXPECT_GT(shares[0], 0);
  EXPECT_LT(shares[0], 1);
  // On slow cards an epoch is hardly more than its messages.
  topology_ = small_topology(3, 2, 1e6);
  SimulatedSpeeds on_slow_cards = speeds();
  EXPECT_GT(on_slow_cards.card_shares(2, two)[0], shares[0]);
  EXPECT_GT(on_slow_cards.card_shares(2, two)[0], 0.7);
  EXPECT_LE(on_slow_cards.card_shares(2, two)[0], 1);
  const std::vector<double> alone = of_jobs.card_shares(2, {{1}, 2});
  EXPECT_EQ(alone, std::vector<double>{0}) << "nothing leaves the host";
  EXPECT_LT(of_jobs.card_shares(3, two)[0] * of_jobs.epoch_s(3, two),
            0.6 * of_jobs.card_shares(0, two)[0] * of_jobs.epoch_s(0, two))
      << "8 bits instead of 32, but for evaluations";
}

TEST_F(JobSpeedsTest, AreInfiniteWhereAJobCantTrain) {
  SimulatedSpeeds of_jobs = speeds();
  EXPECT_TRUE(std::isinf(of_jobs.epoch_s(4, {{0}, 1})));
  EXPECT_THAT(of_jobs.refusal(4), HasSubstr("of memory"));
  EXPECT_EQ(of_jobs.card_shares(4, {{0}, 1}), std::vector<double>{0});
  EXPECT_TRUE(std::isinf(of_jobs.epoch_s(5, {{0, 1, 2}, 1})));
  EXPECT_THAT(of_jobs.refusal(5), HasSubstr("groups of 2"));
  EXPECT_TRUE(std::isfinite(of_jobs.epoch_s(5, {{0, 1}, 2})));
  EXPECT_EQ(of_jobs.refusal(5), "");
}

TEST_F(JobSpeedsTest, AreKeptInATable) {
  const std::filesystem::path table = folder_.path() / "speeds.json";
  SimulatedSpeeds first = speeds(table);
  const JobPlacement two{{0, 1}, 1};
  const double epoch_s = first.epoch_s(0, two);
  const std::vector<double> shares = first.card_shares(0, two);
  first.epoch_s(4, {{0}, 1});
  first.save();
  SimulatedSpeeds second = speeds(table);
  EXPECT_EQ(second.epoch_s(0, two), epoch_s);
  EXPECT_EQ(second.card_shares(0, two), shares);
  EXPECT_TRUE(std::isinf(second.epoch_s(4, {{0}, 1})));
  EXPECT_EQ(second.simulated(), 0);
  topology_.devices[0].elementwise_bytes_per_s *= 1.01;
  SimulatedSpeeds third = speeds(table);
  EXPECT_NE(third.epoch_s(0, two), epoch_s);
  EXPECT_EQ(third.simulated(), 1) << "another machine";

  Json json = read_json(table);
  json["program"] = "another one";
  write_json(table, json);
  topology_ = small_topology(3, 2, 1e8, 1e-5);
  SimulatedSpeeds fourth = speeds(table);
  EXPECT_EQ(fourth.epoch_s(0, two), epoch_s);
  EXPECT_EQ(fourth.simulated(), 1) << "another program";
  std::ofstream(table) << "{";
  EXPECT_EQ(thrown_error([&] { speeds(table); }).kind(), ErrorKind::kInput);
}

TEST_F(JobSpeedsTest, ReadCutsThatTrainingHasMade) {
  const ScheduledTrainings trainings = read_trainings(listed(kList), list());
  CutTable made;
  const PartitionQuality cut = made.of(trainings.trainings[0], 3).quality;
  made.of(trainings.trainings[1], 3);
  EXPECT_EQ(made.made(), 1) << "one cut for all that train on the graph";
  const Partition kept =
      ensure_partition(*trainings.trainings[0].dataset, 3, trainings.trainings[0].partition);
  CutTable read;
  EXPECT_EQ(to_json(read.of(trainings.trainings[0], 3).quality), to_json(cut));
  EXPECT_EQ(read.made(), 0);
  std::filesystem::remove_all(kept.folder);
}

TEST(EvaluationTasks, AreThoseOfTheForwardPass) {
  TaskGraph epoch(2);
  const TaskId dropped = epoch.add({.name = "input dropout", .rank = 0, .seconds = 5});
  const TaskId first = epoch.add(
      {.name = "spmm central", .direction = "forward", .layer = 0, .rank = 0, .seconds = 2},
      std::span(&dropped, 1));
  epoch.add({.kind = TaskKind::kDelay, .name = "all-reduce", .seconds = 3}, std::span(&first, 1));
  epoch.add({.name = "loss", .rank = 0, .seconds = 1});
  epoch.add({.name = "spmm central", .direction = "backward", .layer = 0, .rank = 0, .seconds = 9});
  epoch.add({.name = "step", .rank = 0, .seconds = 9});
  const TaskGraph evaluation = evaluation_tasks(epoch);
  ASSERT_EQ(evaluation.size(), 4);
  double seconds = 0;
  for (const SimTask& task : evaluation.tasks()) seconds += task.seconds;
  EXPECT_EQ(seconds, 2 + 1);
  EXPECT_EQ(evaluation.dependencies(first)[0], dropped);
}

}  // namespace
}  // namespace atl
