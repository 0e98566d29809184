// The accuracy matrix of the runs of a growing dataset, with literal expectations.
#include "launch/report/sequence_matrix.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/report/report_page.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

using ::testing::HasSubstr;

RunRecord step_run(const std::string& name, const std::string& sequence) {
  RunRecord run;
  run.folder = "runs/" + name;
  run.name = name;
  run.epochs = {EpochRecord()};
  run.summary = {{"metric", "accuracy"}, {"sequence", Json::parse(sequence)}};
  run.finished = true;
  return run;
}

std::vector<RunRecord> three_runs() {
  return {
      step_run("a", R"([{"nodes": [0, 10], "test": 0.5}])"),
      step_run("b", R"([{"nodes": [0, 10], "test": 0.375}, {"nodes": [10, 30], "test": 0.75}])"),
      step_run("c", R"([{"nodes": [0, 10], "test": 0.25}, {"nodes": [10, 30], "test": 0.875},)"
                    R"( {"nodes": [30, 40], "test": 1}])")};
}

TEST(SequenceMatrix, HasAveragePerformanceAndForgetting) {
  const SequenceMatrix matrix = sequence_of(three_runs());
  EXPECT_EQ(matrix.steps, (std::vector<NodeRange>{{0, 10}, {10, 30}, {30, 40}}));
  EXPECT_NEAR(matrix.average.value(), (0.25 + 0.875 + 1) / 3, 1e-12);
  EXPECT_NEAR(matrix.forgetting.value(), (-0.25 + 0.125) / 2, 1e-12);
  EXPECT_EQ(to_text(matrix),
            "test accuracy of the nodes that came with each step\n"
            "  run     0-9   10-29   30-39\n"
            "  a    0.5000\n"
            "  b    0.3750  0.7500\n"
            "  c    0.2500  0.8750  1.0000\n"
            "average performance 0.7083, forgetting -0.0625\n");
  const std::string page = make_report(three_runs(), matrix);
  for (const char* text : {"Steps of the dataset", "nodes 10-29", "0.8750", "0.7083", "-0.0625"}) {
    EXPECT_THAT(page, HasSubstr(text));
  }
}

TEST(SequenceMatrix, IsForgottenWhereErrorsHaveGrown) {
  std::vector<RunRecord> runs = three_runs();
  for (RunRecord& run : runs) run.summary["metric"] = "MAE";
  EXPECT_NEAR(sequence_of(runs).forgetting.value(), (0.25 - 0.125) / 2, 1e-12);
}

TEST(SequenceMatrix, LeavesOutStepsWithoutTestNodes) {
  std::vector<RunRecord> runs = three_runs();
  runs[2].summary["sequence"][0]["test"] = nullptr;
  const SequenceMatrix matrix = sequence_of(runs);
  EXPECT_NEAR(matrix.average.value(), (0.875 + 1) / 2, 1e-12);
  EXPECT_NEAR(matrix.forgetting.value(), 0.125, 1e-12);
  EXPECT_THAT(to_text(matrix), HasSubstr("c         -  0.8750"));
  const SequenceMatrix one = sequence_of({runs[0]});
  EXPECT_FALSE(one.forgetting.has_value());
}

TEST(SequenceMatrix, RefusesRunsThatAreNoSequence) {
  const auto message = [](const std::vector<RunRecord>& runs) {
    const Error error = thrown_error([&] { sequence_of(runs); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return std::string(error.what());
  };
  std::vector<RunRecord> runs = three_runs();
  runs[1].summary.erase("sequence");
  EXPECT_THAT(message(runs), HasSubstr("runs/b/summary.json: has no 'sequence'"));
  runs = three_runs();
  std::swap(runs[0], runs[1]);
  EXPECT_THAT(message(runs), HasSubstr("its dataset has 2 steps; run 1 of --sequence must have 1"));
  runs = three_runs();
  runs[2].summary["metric"] = "mcc";
  EXPECT_THAT(message(runs), HasSubstr("its metric is mcc, that of a is accuracy"));
  runs = three_runs();
  runs[2].summary["sequence"][1]["nodes"] = {10, 31};
  EXPECT_THAT(message(runs), HasSubstr("step 2 has nodes 10-30, in b it has 10-29"));
  runs[2].summary["sequence"][1]["nodes"] = {10};
  EXPECT_THAT(message(runs), HasSubstr("has 1 numbers; allowed are two"));
}

}  // namespace
}  // namespace atl
