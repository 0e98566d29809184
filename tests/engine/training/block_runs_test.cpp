// Whole runs on blocks: across a resume, and on to the whole graph.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "base/files.hpp"
#include "engine/training/checkpoint.hpp"
#include "engine/training/training_run.hpp"
#include "tests/engine/training/block_options.hpp"
#include "tests/engine/training/example_runs.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

using ::testing::HasSubstr;

class BlockRuns : public RunsInFolders {};

TEST_F(BlockRuns, GoOnBitForBit) {
  for (const std::string exchange : {"exact", "quantized"}) {
    TrainOptions options = block_options("sage", 3);
    options.blocks.until.epoch = 4;
    options.exchange = exchange;
    options.message_bits.bits = parse_bits("4");
    const std::string whole = exchange + "-whole";
    run(whole, 6, false, options);
    for (const int stop : {1, 4, 5}) {
      const std::string name = fmt::format("{}-{}", exchange, stop);
      run(name, stop, false, options);
      run(name, 6, true, options);
      expect_same(name, whole);
    }
    EXPECT_EQ(lines(whole, "steps"), (std::vector<Json>{3, 3, 3, 3, nullptr, nullptr}));
    const std::vector<Json> kept = lines(whole, "edges_kept");
    EXPECT_NE(kept[0], kept[1]) << "every epoch deals anew";
    EXPECT_TRUE(kept[4].is_null());
  }
  EXPECT_NE(lines("exact-whole", "loss"), lines("quantized-whole", "loss"));
}

// Nothing is learned at such a rate on blocks, so that no evaluation after the first one is better.
TrainOptions stalled_options() {
  TrainOptions options = block_options("sage", 3);
  options.model.norm = Norm::kNone;
  options.optimizer.learning_rate = 1e-12;
  options.blocks.until.by_accuracy = true;
  return options;
}

TEST_F(BlockRuns, EndBlocksWhenTheValidMetricHasStalled) {
  TrainOptions options = stalled_options();
  options.switching.rate_after = 0.02;
  run("whole", 8, false, options);
  EXPECT_EQ(lines("whole", "steps"),
            (std::vector<Json>{3, 3, 3, 3, nullptr, nullptr, nullptr, nullptr}));
  const std::vector<Json> last = lines("whole", "last_before_switch");
  EXPECT_EQ(std::ranges::count(last, Json(true)), 1);
  EXPECT_EQ(last[3], Json(true));
  const std::vector<Json> losses = lines("whole", "loss");
  EXPECT_LT(losses[7].get<double>(), 0.9 * losses[4].get<double>()) << "at the rate after blocks";
  for (const int stop : {1, 3, 4, 5}) {
    const std::string name = fmt::format("until-{}", stop);
    run(name, stop, false, options);
    run(name, 8, true, options);
    expect_same(name, "whole");
  }
  // The same as with the number of that epoch.
  TrainOptions numbered = options;
  numbered.blocks.until = {.epoch = 4};
  run("numbered", 8, false, numbered);
  EXPECT_EQ(lines("numbered", "loss"), losses);
  EXPECT_EQ(lines("numbered", "last_before_switch"), last);
  options.switching.patience = 1;
  run("soon", 4, false, options);
  EXPECT_EQ(lines("soon", "steps"), (std::vector<Json>{3, 3, nullptr, nullptr}));
}

// A signal ends a run before the evaluation that is due; the resumed run makes up for it, and finds
// that blocks have ended.
TEST_F(BlockRuns, EndBlocksByALateEvaluation) {
  TrainOptions options = stalled_options();
  options.switching.rate_after = 0.02;
  run("whole", 6, false, options);
  run("late", 4, false, options);
  const std::filesystem::path folder = dir_.path() / "late";
  const std::filesystem::path file = newest_checkpoint(folder).value();
  const std::string bytes = read_text(file);
  const auto content = std::as_bytes(std::span(bytes));
  const std::string described = parse_safetensors(content, file).metadata.at("atoll checkpoint");
  Checkpoint checkpoint = parse_checkpoint(content, file, Json::parse(described).at("fingerprint"));
  EXPECT_EQ(checkpoint.last_before_switch, 4);
  EXPECT_EQ(checkpoint.best.evaluations_since, 0);
  checkpoint.last_before_switch = 0;
  checkpoint.best.evaluations_since = 2;
  checkpoint.evaluation_is_due = true;
  write_checkpoint(folder, checkpoint);
  std::string text = read_text(folder / "metrics.jsonl");
  const std::string field = ",\"last_before_switch\":true";
  ASSERT_NE(text.find(field), std::string::npos);
  text.erase(text.find(field), field.size());
  write_atomically(folder / "metrics.jsonl", text);
  run("late", 6, true, options);
  expect_same("late", "whole");
}

// The count of --patience begins when blocks have ended.
TEST_F(BlockRuns, EndEarlyOnTheWholeGraphAlone) {
  TrainOptions options = stalled_options();
  options.patience = 2;
  run("whole", 20, false, options);
  EXPECT_EQ(lines("whole", "steps"), (std::vector<Json>{3, 3, 3, 3, nullptr, nullptr}));
  run("parts", 5, false, options);
  run("parts", 20, true, options);
  expect_same("parts", "whole");
}

// A step is worth as much as an epoch of the whole graph.
TEST_F(BlockRuns, LearnFaster) {
  TrainOptions options = block_options("gcn", 4);
  run("blocks", 4, false, options);
  options.blocks = {};
  run("whole", 4, false, options);
  EXPECT_GT(lines("blocks", "valid")[3].get<double>(),
            lines("whole", "valid")[3].get<double>() + 0.05);
}

TEST_F(BlockRuns, AreRefusedUnderOtherBlocks) {
  TrainOptions options = block_options("gcn", 4);
  run("other", 2, false, options);
  options.blocks.count.number = 5;
  const Error error = thrown_error([&] { run("other", 4, true, options); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_THAT(error.what(), HasSubstr("blocks"));
}

TEST_F(BlockRuns, TakeMemoryForABlockAndNoMore) {
  const auto bytes_of = [&](int blocks, int until) {
    TrainOptions options = block_options("gcn", blocks);
    options.model.hidden = 64;
    options.blocks.until.epoch = until;
    std::int64_t bytes = 0;
    run_local_ranks(1, 30, [&](Transport& transport) {
      RankJob job(transport, dataset_, PartitionOptions{}, options);
      bytes = job.trainer().bytes_needed();
    });
    return bytes;
  };
  EXPECT_LT(bytes_of(8, 0), bytes_of(0, 0)) << "values of the whole graph are for evaluation alone";
  EXPECT_GT(bytes_of(8, 3), bytes_of(0, 0)) << "those of the last epochs, and a block";
}

}  // namespace
}  // namespace atl
