// Run folders of quantized training: resumed bit by bit, on other ranks, and what they record.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <sstream>

#include "base/files.hpp"
#include "engine/training/training_run.hpp"
#include "tests/engine/training/example_runs.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

using ::testing::HasSubstr;

class QuantizedRuns : public ::testing::Test {
 protected:
  void SetUp() override {
    dataset_ = make_sbm(dir_, true);
    write_json(dir_.path() / "slow.json", slow_calibration(3));
    spdlog::default_logger()->sinks().push_back(sink_);
  }
  void TearDown() override { spdlog::default_logger()->sinks().pop_back(); }

  TrainOptions options(const std::string& bits) const {
    TrainOptions options = small_options();
    options.exchange = "quantized";
    options.message_bits.bits = parse_bits(bits);
    options.message_bits.reassign_every = 3;
    options.checkpoint_every = 1;
    if (bits == "adaptive") options.calibration = dir_.path() / "slow.json";
    return options;
  }

  void run(const std::string& name, int epochs, bool resume, TrainOptions options,
           int ranks = 2) const {
    options.optimizer.epochs = epochs;
    options.start = resume ? RunStart::kResume : RunStart::kFresh;
    options.run_dir = dir_.path() / name;
    train_in_folder(ranks, dataset_, options);
  }

  std::vector<Json> lines(const std::string& name) const { return metrics_of(dir_.path() / name); }
  Json summary(const std::string& name) const {
    return read_json(dir_.path() / name / "summary.json");
  }
  void expect_same_run(const std::string& name, const std::string& expected) const {
    for (const std::string file : {"model.safetensors", "checkpoint/epoch-12.safetensors"}) {
      EXPECT_TRUE(read_text(dir_.path() / name / file) == read_text(dir_.path() / expected / file))
          << name << " " << file;
    }
    const std::vector<Json> found_lines = lines(name);
    const std::vector<Json> expected_lines = lines(expected);
    ASSERT_EQ(found_lines.size(), expected_lines.size()) << name;
    for (std::size_t i = 0; i < found_lines.size(); ++i) {
      EXPECT_EQ(found_lines[i].at("loss"), expected_lines[i].at("loss")) << name << " line " << i;
    }
    EXPECT_EQ(summary(name).at("mean_bits"), summary(expected).at("mean_bits"));
  }
  std::string warnings() const { return warnings_.str(); }

  TempDir dir_;
  std::filesystem::path dataset_;

 private:
  std::ostringstream warnings_;
  spdlog::sink_ptr sink_ = std::make_shared<spdlog::sinks::ostream_sink_mt>(warnings_);
};

// Checkpoints in the warm-up of adaptive widths (2, 4), at an assignment (5, 8) and between (6).
TEST_F(QuantizedRuns, GoOnAfterAKillBitForBit) {
  for (const std::string bits : {"4", "random", "adaptive"}) {
    run(bits, 12, false, options(bits));
    for (const int cut : {2, 4, 5, 6, 8}) {
      if (bits == "4" && cut != 5) continue;
      const std::string name = bits + "-" + std::to_string(cut);
      run(name, cut, false, options(bits));
      // The files that a kill in the next epoch leaves behind.
      {
        std::FILE* file = std::fopen((dir_.path() / name / "metrics.jsonl").c_str(), "ab");
        std::fputs("{\"epoch\": 99, \"loss\": 9}\n{\"epo", file);
        std::fclose(file);
      }
      run(name, 12, true, options(bits));
      expect_same_run(name, bits);
    }
  }
  EXPECT_EQ(warnings(), "");
}

// The calibration that adaptive widths measured is found again in the run folder.
TEST_F(QuantizedRuns, GoOnWithTheCalibrationOfTheirFolder) {
  TrainOptions measured = options("adaptive");
  measured.calibration.clear();
  run("measured", 7, false, measured);
  const Json before = read_json(dir_.path() / "measured" / "calibration.json");
  ASSERT_TRUE(before.contains("exchange"));
  EXPECT_EQ(before.at("exchange").at("ranks"), 2);
  run("measured", 12, true, measured);
  EXPECT_EQ(read_json(dir_.path() / "measured" / "calibration.json"), before);
  // The same whole run by that calibration.
  measured.calibration = dir_.path() / "measured" / "calibration.json";
  run("repeated", 12, false, measured);
  expect_same_run("repeated", "measured");
}

TEST_F(QuantizedRuns, RecordTheWidthsWhereTheyChange) {
  run("random", 8, false, options("random"));
  run("adaptive", 9, false, options("adaptive"));
  const auto news = [&](const std::string& name) {
    std::vector<int> epochs;
    for (const Json& line : lines(name)) {
      if (line.contains("assignment")) epochs.push_back(line.at("epoch"));
    }
    return epochs;
  };
  EXPECT_EQ(news("random"), (std::vector<int>{1, 4, 7}));
  EXPECT_EQ(news("adaptive"), (std::vector<int>{1, 2, 3, 4, 5, 6, 9}));
  const Json random = summary("random");
  EXPECT_EQ(random.at("exchange"), "quantized");
  EXPECT_EQ(random.at("bits"), "random");
  EXPECT_NEAR(random.at("mean_bits").get<double>(), 14.0 / 3, 0.5);
  const Json adaptive = summary("adaptive");
  EXPECT_EQ(adaptive.at("bits"), "adaptive");
  const Json last = lines("adaptive").back().at("assignment");
  EXPECT_EQ(adaptive.at("mean_bits"), last.at("mean_bits").get<double>());
  EXPECT_LT(adaptive.at("mean_bits").get<double>(), 31);
  for (const Json& channel : last.at("channels")) {
    EXPECT_TRUE(channel.contains("wire_ms") && channel.contains("central_ms")) << channel.dump();
  }
  TrainOptions exact = options("4");
  exact.exchange = "exact";
  run("exact", 2, false, exact);
  EXPECT_FALSE(summary("exact").contains("bits"));
  EXPECT_FALSE(summary("exact").contains("mean_bits"));
  EXPECT_EQ(news("exact"), std::vector<int>{});
}

TEST_F(QuantizedRuns, GoOnOnAnotherNumberOfRanks) {
  TrainOptions measured = options("adaptive");
  measured.calibration.clear();
  run("moved", 7, false, measured);
  EXPECT_EQ(warnings(), "");
  run("moved", 14, true, measured, 3);
  EXPECT_THAT(warnings(), HasSubstr("another number of ranks"));
  const std::vector<Json> all = lines("moved");
  ASSERT_EQ(all.size(), 14U);
  EXPECT_LT(all.back().at("loss").get<double>(), all.front().at("loss").get<double>());
  EXPECT_EQ(read_json(dir_.path() / "moved" / "calibration.json").at("exchange").at("ranks"), 3);
  EXPECT_EQ(all.at(7).at("assignment").at("mean_bits").get<double>(), 4)
      << "the warm-up begins again";
  // One rank needs no widths at all.
  run("moved", 16, true, measured, 1);
  EXPECT_EQ(lines("moved").size(), 16U);
}

TEST_F(QuantizedRuns, RefuseToGoOnWithOtherWidths) {
  run("kept", 2, false, options("4"));
  const Error error = thrown_error([&] { run("kept", 4, true, options("8")); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_THAT(error.what(), HasSubstr("bits = \"4\""));
}

TEST_F(QuantizedRuns, NameTheFileOfABadCalibration) {
  const auto refused = [&](const std::function<void(Json&)>& damage) {
    Json bad = slow_calibration(3);
    damage(bad.at("exchange"));
    write_json(dir_.path() / "bad.json", bad);
    TrainOptions options = this->options("adaptive");
    options.calibration = dir_.path() / "bad.json";
    const Error error = thrown_error([&] { run("refused", 6, false, options); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_FALSE(std::filesystem::exists(dir_.path() / "refused")) << "found before it ran";
    std::filesystem::remove_all(dir_.path() / "refused");
    EXPECT_THAT(error.what(), HasSubstr("bad.json"));
    return std::string(error.what());
  };
  EXPECT_THAT(refused([](Json& j) { j["ranks"] = 3; }), HasSubstr("3 parts"));
  EXPECT_THAT(refused([](Json& j) { j["links"].erase(0); }), HasSubstr("rank 0 to rank 1"));
  EXPECT_THAT(refused([](Json& j) { j["links"][0]["gamma_s"] = -1; }), HasSubstr("'gamma_s'"));
}

}  // namespace
}  // namespace atl
