// Snapshots: which one a job goes on from, and that runs which lose their processes end as if they
// had not.
#include "engine/training/snapshot.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <fstream>
#include <sstream>

#include "base/files.hpp"
#include "engine/training/training_run.hpp"
#include "tests/engine/training/example_runs.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

HeldEpochs held(std::array<int, 2> state, std::array<int, 2> exchange = {}) {
  return {state, exchange};
}

TEST(SnapshotChoice, IsTheNewestState) {
  EXPECT_EQ(choose_snapshot({held({}), held({})}), std::nullopt);
  EXPECT_EQ(choose_snapshot({held({}, {3, 4}), held({})}), std::nullopt) << "no state";
  EXPECT_EQ(choose_snapshot({held({3, 4}), held({}), held({5, 4})}), (SnapshotChoice{5, 2, false}));
  EXPECT_EQ(choose_snapshot({held({4, 3}), held({}), held({3, 4})}), (SnapshotChoice{4, 0, false}));
}

TEST(SnapshotChoice, WantsTheExchangeOfAllRanks) {
  EXPECT_EQ(choose_snapshot({held({5, 4}, {5, 4}), held({}, {4, 5})}),
            (SnapshotChoice{5, 0, true}));
  // Rank 1 has not come as far.
  EXPECT_EQ(choose_snapshot({held({5, 4}, {5, 4}), held({}, {4, 3})}),
            (SnapshotChoice{4, 0, true}));
  // A host is gone, or has never taken part: better a new exchange than an old state.
  EXPECT_EQ(choose_snapshot({held({5, 4}, {5, 4}), held({})}), (SnapshotChoice{5, 0, false}));
  EXPECT_EQ(choose_snapshot({held({9, 8}, {5, 4}), held({}, {5, 4})}),
            (SnapshotChoice{9, 0, false}));
}

TEST(SnapshotFolder, IsRemovedAndNothingElse) {
  const TempDir dir;
  const std::string id = make_snapshot_id();
  const auto make = [&](const fs::path& folder, fs::perms perms = fs::perms::owner_all) {
    fs::create_directory(folder);
    std::ofstream(folder / "a.state.0") << "x";
    fs::permissions(folder, perms);
    return folder;
  };
  const fs::path own = make(snapshot_folder(dir.path(), id));
  remove_snapshot_folder(own);
  EXPECT_FALSE(fs::exists(own));
  const fs::path open = make(own, fs::perms::all);
  remove_snapshot_folder(open);
  EXPECT_TRUE(fs::exists(open / "a.state.0")) << "anybody may have written there";
  const fs::path linked = snapshot_folder(dir.path(), make_snapshot_id());
  const fs::path other = make(dir.path() / "atoll-data");
  fs::create_directory_symlink(other, linked);
  for (const fs::path& path : {linked, other, dir.path()}) remove_snapshot_folder(path);
  EXPECT_TRUE(fs::exists(linked / "a.state.0"));
}

class SnapshotRuns : public ::testing::Test {
 protected:
  void SetUp() override {
    dataset_ = make_sbm(dir_, false);
    memory_ = dir_.path() / "memory";
    fs::create_directory(memory_);
    write_json(dir_.path() / "slow.json", slow_calibration(3));
    spdlog::default_logger()->sinks().push_back(sink_);
  }
  void TearDown() override { spdlog::default_logger()->sinks().pop_back(); }

  TrainOptions options() const {
    TrainOptions options = small_options();
    options.optimizer.epochs = 8;
    options.model.dropout = 0.4;
    options.eval_every = 3;
    options.checkpoint_seconds = 0;
    options.snapshot_every = 1;
    options.snapshot_dir = memory_;
    return options;
  }
  TrainOptions adaptive_options() const {
    TrainOptions adaptive = options();
    adaptive.exchange = "quantized";
    adaptive.message_bits.bits = parse_bits("adaptive");
    adaptive.message_bits.reassign_every = 3;
    adaptive.calibration = dir_.path() / "slow.json";
    return adaptive;
  }

  // Ends without more ado on all ranks when epoch `end` is kept; 0: at its own end.
  void run(const std::string& name, TrainOptions options, RunStart start, int end = 0,
           int ranks = 2) const {
    options.start = start;
    options.run_dir = dir_.path() / name;
    const auto whole = [&] {
      run_local_ranks(ranks, 30, [&](Transport& transport) {
        TrainOptions own = options;
        const auto folder = open_run_folder(transport, own);
        RankJob job(transport, dataset_, PartitionOptions{}, own);
        RunDescription description{{}, "commit", dataset_.string()};
        description.epoch_done = [&](int epoch) {
          if (epoch != end) return;
          transport.barrier({"the snapshots of all ranks"});
          fail_input("the end of epoch {}", end);
        };
        train(own, description, job, transport, *folder);
      });
    };
    if (end == 0) {
      whole();
    } else {
      EXPECT_THAT(thrown_error(whole).what(), HasSubstr("the end of epoch"));
    }
  }
  void expect_same(const std::string& name, const std::string& expected) const {
    EXPECT_TRUE(read_text(dir_.path() / name / "model.safetensors") ==
                read_text(dir_.path() / expected / "model.safetensors"))
        << name;
    EXPECT_EQ(losses(name), losses(expected));
  }
  std::vector<double> losses(const std::string& name) const {
    std::vector<double> values;
    std::istringstream lines(read_text(dir_.path() / name / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const Json json = Json::parse(line);
      EXPECT_EQ(json.at("epoch"), std::ssize(values) + 1);
      values.push_back(json.at("loss").get<double>());
    }
    return values;
  }
  // Files kept of the only run that has any, by name.
  std::vector<fs::path> kept(const std::string& part) const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::recursive_directory_iterator(memory_)) {
      if (entry.path().filename().string().find(part) != std::string::npos &&
          entry.is_regular_file()) {
        found.push_back(entry.path());
      }
    }
    std::ranges::sort(found);
    return found;
  }
  static void damage(const fs::path& file) {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(static_cast<std::streamoff>(fs::file_size(file) / 2));
    const auto byte = static_cast<char>(stream.peek());
    stream.put(static_cast<char>(byte ^ 1));
  }
  std::string warnings() const { return warnings_.str(); }

  TempDir dir_;
  fs::path dataset_;
  fs::path memory_;

 private:
  std::ostringstream warnings_;
  spdlog::sink_ptr sink_ = std::make_shared<spdlog::sinks::ostream_sink_mt>(warnings_);
};

TEST_F(SnapshotRuns, GoOnBitForBit) {
  for (const bool quantized : {false, true}) {
    const TrainOptions how = quantized ? adaptive_options() : options();
    const std::string name = quantized ? "quantized" : "exact";
    TrainOptions plain = how;
    plain.snapshot_every = 0;
    run(name + " whole", plain, RunStart::kFresh);
    for (const int end : {1, 4, 7}) {
      const std::string cut = name + std::to_string(end);
      run(cut, how, RunStart::kFresh, end);
      EXPECT_EQ(kept(".state.").size(), end == 1 ? 1U : 2U);
      EXPECT_EQ(kept(".rank-").size(), quantized ? 2 * kept(".state.").size() : 0U);
      run(cut, how, RunStart::kResume);
      expect_same(cut, name + " whole");
      EXPECT_TRUE(fs::is_empty(memory_)) << "what is on the disk need not be kept";
    }
  }
  EXPECT_EQ(warnings(), "");
}

TEST_F(SnapshotRuns, GoOnSeveralTimes) {
  run("whole", options(), RunStart::kFresh);
  run("cut", options(), RunStart::kFresh, 2);
  for (const int end : {3, 5, 6}) run("cut", options(), RunStart::kResume, end);
  run("cut", options(), RunStart::kResume);
  expect_same("cut", "whole");
}

// They are on a host that was lost, and is back once the run has trained elsewhere, from the
// beginning or from a checkpoint: their metrics are gone.
TEST_F(SnapshotRuns, DontCountOnceTheRunWasSetBack) {
  run("whole", options(), RunStart::kFresh);
  TrainOptions elsewhere = options();
  elsewhere.snapshot_dir = dir_.path() / "elsewhere";
  fs::create_directory(elsewhere.snapshot_dir);
  for (const int checkpoint : {0, 4}) {
    const std::string cut = "cut" + std::to_string(checkpoint);
    TrainOptions here = options();
    here.checkpoint_every = elsewhere.checkpoint_every = checkpoint;
    run(cut, here, RunStart::kFresh, 7);
    run(cut, elsewhere, RunStart::kResume, 5);
    run(cut, here, RunStart::kResume, 6);
    // Newer than those that are here of the same epochs.
    run(cut, here, RunStart::kResume);
    expect_same(cut, "whole");
  }
  EXPECT_THAT(warnings(), Not(HasSubstr("has lines of")));
}

// A process may have ended while it wrote: then the snapshot before counts.
TEST_F(SnapshotRuns, PassOverWhatIsNotWhole) {
  run("whole", adaptive_options(), RunStart::kFresh);
  for (const std::string part : {".state.", ".rank-1-of-2."}) {
    run("cut" + part, adaptive_options(), RunStart::kFresh, 5);
    damage(kept(part).at(0));  // of epoch 5
    run("cut" + part, adaptive_options(), RunStart::kResume);
    expect_same("cut" + part, "whole");
  }
}

// In the epoch before messages had no state yet, which all ranks know.
TEST_F(SnapshotRuns, PassOverTheFirstEpochAfterALocalPhase) {
  TrainOptions local = options();
  local.exchange = "compensated";
  local.message_bits.bits = parse_bits("2");
  local.local_until.epoch = 3;
  run("whole", local, RunStart::kFresh);
  for (const int end : {2, 3, 4, 5}) {
    const std::string name = "cut" + std::to_string(end);
    run(name, local, RunStart::kFresh, end);
    if (end == 4) damage(kept(".rank-1-of-2.").at(1));  // of this epoch
    run(name, local, RunStart::kResume);
    expect_same(name, "whole");
  }
  EXPECT_EQ(warnings(), "");
}

TEST_F(SnapshotRuns, TakeWhatIsNewerOfSnapshotAndCheckpoint) {
  TrainOptions both = options();
  both.checkpoint_every = 3;
  run("whole", both, RunStart::kFresh);
  run("cut", both, RunStart::kFresh, 5);
  EXPECT_TRUE(fs::exists(dir_.path() / "cut/checkpoint/epoch-3.safetensors"));
  for (const fs::path& file : kept(".state.")) fs::remove(file);
  run("cut", both, RunStart::kResume, 4);
  EXPECT_TRUE(fs::exists(dir_.path() / "cut/checkpoint/epoch-3.safetensors"));
  run("cut", both, RunStart::kResume);
  expect_same("cut", "whole");
}

TEST_F(SnapshotRuns, PutInTheLineThatRankZeroCouldNotWrite) {
  run("whole", options(), RunStart::kFresh);
  run("cut", options(), RunStart::kFresh, 6);
  const fs::path metrics = dir_.path() / "cut/metrics.jsonl";
  std::string text = read_text(metrics);
  text.resize(text.rfind('\n', text.size() - 2) + 1);
  std::ofstream(metrics) << text;
  run("cut", options(), RunStart::kResume);
  expect_same("cut", "whole");
}

TEST_F(SnapshotRuns, GoOnOnAnotherNumberOfRanks) {
  run("whole", options(), RunStart::kFresh);
  run("cut", options(), RunStart::kFresh, 4);
  run("cut", options(), RunStart::kResume, 6, 1);
  run("cut", options(), RunStart::kResume, 0, 3);
  const std::vector<double> found = losses("cut");
  const std::vector<double> expected = losses("whole");
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t e = 0; e < found.size(); ++e) EXPECT_NEAR(found[e], expected[e], 1e-4);
  EXPECT_TRUE(fs::is_empty(memory_));
}

TEST_F(SnapshotRuns, OfARunThatIsOverwrittenAreGone) {
  run("cut", options(), RunStart::kFresh, 4);
  run("cut", options(), RunStart::kOverwrite, 2);
  EXPECT_EQ(kept(".state.").size(), 2U);
  run("cut", options(), RunStart::kOverwrite);
  EXPECT_EQ(losses("cut").size(), 8U);
  EXPECT_TRUE(fs::is_empty(memory_));
}

TEST_F(SnapshotRuns, AreNoReasonToStop) {
  TrainOptions nowhere = options();
  std::ofstream(memory_ / "file") << "no folder";
  nowhere.snapshot_dir = memory_ / "file";
  run("run", nowhere, RunStart::kFresh);
  EXPECT_EQ(losses("run").size(), 8U);
  EXPECT_THAT(warnings(), HasSubstr("can't keep a snapshot of epoch 1: Not a directory"));
}

TEST_F(SnapshotRuns, RefuseOtherMathematics) {
  run("cut", options(), RunStart::kFresh, 4);
  TrainOptions other = options();
  other.model.dropout = 0.2;
  const Error error = thrown_error([&] { run("cut", other, RunStart::kResume); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_THAT(error.what(), HasSubstr("dropout"));
  EXPECT_THAT(error.what(), HasSubstr(".state."));
}

// Names in /dev/shm can be taken by anybody.
TEST_F(SnapshotRuns, TrustNobodyElsesFolder) {
  run("cut", options(), RunStart::kFresh, 2);
  fs::path folder = kept(".state.").at(0).parent_path();
  fs::permissions(folder, fs::perms::all);
  run("cut", options(), RunStart::kResume, 3);
  EXPECT_THAT(warnings(), HasSubstr("holds no checkpoint yet"));
  EXPECT_THAT(warnings(), HasSubstr("can't keep a snapshot of epoch 1: Operation not permitted"));
}

}  // namespace
}  // namespace atl
