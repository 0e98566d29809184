#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "base/error.hpp"
#include "launch/report_page.hpp"
#include "launch/run_records.hpp"
#include "launch/svg_chart.hpp"
#include "tests/support/temp_dir.hpp"

namespace atl {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pointwise;

constexpr const char* kTwoEpochs =
    R"({"epoch": 1, "loss": 2.5, "valid": 0.25, "epoch_ms": 30, "phases": {"forward": 10, "step": 1}})"
    "\n"
    R"({"epoch": 2, "loss": 1.5, "valid": null, "epoch_ms": 20, "bytes_sent": 1000, "phases": {"forward": 20, "wait": 4}})"
    "\n";

class RunFolderTest : public ::testing::Test {
 protected:
  std::filesystem::path write_run(const std::string& name, const std::string& metrics,
                                  const std::string& summary = "") {
    const std::filesystem::path run = folder_.path() / name;
    std::filesystem::create_directories(run);
    std::ofstream(run / "metrics.jsonl") << metrics;
    if (!summary.empty()) std::ofstream(run / "summary.json") << summary;
    return run;
  }
  std::string refusal(const std::filesystem::path& run) {
    try {
      read_run(run);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      return error.what();
    }
    ADD_FAILURE() << "accepted";
    return "";
  }

  TempDir folder_;
};

TEST_F(RunFolderTest, ReadsEpochs) {
  const RunRecord run = read_run(write_run("a", kTwoEpochs, R"({"test": 0.5})"));
  EXPECT_EQ(run.name, "a");
  EXPECT_TRUE(run.finished);
  ASSERT_EQ(run.epochs.size(), 2U);
  EXPECT_EQ(run.epochs[1].epoch, 2);
  EXPECT_EQ(run.epochs[0].loss, 2.5);
  EXPECT_EQ(run.epochs[0].valid, 0.25);
  EXPECT_EQ(run.epochs[1].valid, std::nullopt);
  EXPECT_EQ(run.epochs[0].bytes_sent, std::nullopt);
  EXPECT_EQ(median_of(run.epochs, &EpochRecord::epoch_ms), 25);
  EXPECT_EQ(median_of(run.epochs, &EpochRecord::test), std::nullopt);
  EXPECT_THAT(median_phases(run.epochs), ElementsAre(std::pair<std::string, double>("forward", 15),
                                                     std::pair<std::string, double>("step", 1),
                                                     std::pair<std::string, double>("wait", 4)));
}

TEST_F(RunFolderTest, RunCaughtWriting) {
  const RunRecord run = read_run(write_run("a", std::string(kTwoEpochs) + R"({"epoch": 3, "lo)"));
  EXPECT_EQ(run.epochs.size(), 2U);
  EXPECT_FALSE(run.finished);
}

TEST_F(RunFolderTest, NamesWhatIsWrong) {
  EXPECT_THAT(refusal(folder_.path() / "none"), HasSubstr("no such folder"));
  EXPECT_THAT(refusal(folder_.path()), HasSubstr("metrics.jsonl"));
  EXPECT_THAT(refusal(write_run("empty", "")), HasSubstr("holds no epoch"));
  EXPECT_THAT(refusal(write_run("garbled", "{\"epoch\": 1}\n{\"epoch\": 2,,}\n")),
              HasSubstr("metrics.jsonl:2: not valid JSON at byte 13"));
  EXPECT_THAT(refusal(write_run("type", "{\"epoch\": 1, \"loss\": \"low\"}\n")),
              HasSubstr("metrics.jsonl:1: 'loss' is \"low\""));
  EXPECT_THAT(refusal(write_run("no-epoch", "{\"loss\": 1}\n")), HasSubstr("'epoch' is missing"));
  EXPECT_THAT(refusal(write_run("list", "[1]\n")), HasSubstr("expected an object"));
  EXPECT_THAT(refusal(write_run("phases", "{\"epoch\": 1, \"phases\": {\"a\": \"b\"}}\n")),
              HasSubstr("phase 'a'"));
  EXPECT_THAT(refusal(write_run("summary", kTwoEpochs, "{")), HasSubstr("summary.json"));
}

TEST_F(RunFolderTest, PageHoldsTableAndCharts) {
  const std::vector<RunRecord> runs = {
      read_run(write_run("<one>", kTwoEpochs, R"({"dataset": "a&b", "test": 0.5, "ranks": 4})")),
      read_run(write_run("two", kTwoEpochs))};
  const std::string page = make_report(runs);
  EXPECT_THAT(page, HasSubstr("&lt;one&gt;"));
  EXPECT_THAT(page, Not(HasSubstr("<one>")));
  EXPECT_THAT(page, HasSubstr("a&amp;b"));
  EXPECT_THAT(page, HasSubstr("50.00%"));
  EXPECT_THAT(page, HasSubstr("(not finished)"));
  EXPECT_THAT(page, HasSubstr("Training loss"));
  EXPECT_THAT(page, HasSubstr("Time per phase"));
  EXPECT_THAT(page, Not(HasSubstr("Score on the test split")));  // no run has one
  EXPECT_THAT(page, Not(HasSubstr("http")));                     // nothing is fetched
  EXPECT_THAT(page, Not(HasSubstr("<script")));
}

TEST_F(RunFolderTest, EqualNamesAreToldApartByFolder) {
  const auto first = write_run("x/run", kTwoEpochs);
  const auto second = write_run("y/run", kTwoEpochs);
  const std::string page = make_report({read_run(first), read_run(second)});
  EXPECT_THAT(page, HasSubstr(first.string()));
  EXPECT_THAT(page, HasSubstr(second.string()));
}

TEST(SvgChart, FormatsNumbers) {
  EXPECT_EQ(format_number(0), "0");
  EXPECT_EQ(format_number(1234567), "1,234,567");
  EXPECT_EQ(format_number(-1234.5), "-1,234");  // four digits, ties to even
  EXPECT_EQ(format_number(0.0123456), "0.01235");
  EXPECT_EQ(format_number(0.5), "0.5");
  EXPECT_EQ(format_number(330.25), "330.2");
  EXPECT_EQ(format_number(1.25e-7), "1.25e-07");
  EXPECT_EQ(format_number(std::nan("")), "-");
}

TEST(SvgChart, TicksAreRound) {
  EXPECT_THAT(nice_ticks(0, 1, 5), Pointwise(DoubleEq(), {0.0, 0.2, 0.4, 0.6, 0.8, 1.0}));
  EXPECT_THAT(nice_ticks(3, 97, 5), ElementsAre(20, 40, 60, 80));
  EXPECT_THAT(nice_ticks(-1, 1, 4), ElementsAre(-1, -0.5, 0, 0.5, 1));
  EXPECT_THAT(nice_ticks(7, 7, 5), ElementsAre(7));
}

TEST(SvgChart, EscapesHtml) {
  EXPECT_EQ(escape_html("<a href=\"x\">'&'"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;");
}

TEST(SvgChart, DrawsALine) {
  // Two points: the axis spans x 1..3 and, from zero, y 0..2.1 (5 % above the highest).
  LineChart chart{"Loss", "epoch", "loss", false, true, {{"run", 0, {{1, 0}, {3, 2}}}}};
  const std::string svg = draw_lines(chart);
  EXPECT_THAT(svg, HasSubstr("points=\"64.0,238.0 544.0,24.7\""));
  chart.series.front().points.clear();
  EXPECT_EQ(draw_lines(chart), "");
}

TEST(SvgChart, DrawsLongSeriesWithTheirEnds) {
  LineChart chart{"Loss", "epoch", "loss", false, true, {{"run", 0, {}}}};
  for (int i = 0; i < 2500; ++i) chart.series.front().points.emplace_back(i, 1);
  const std::string svg = draw_lines(chart);
  EXPECT_THAT(svg, HasSubstr("points=\"64.0,"));
  EXPECT_THAT(svg, HasSubstr(" 544.0,"));
  EXPECT_LT(std::count(svg.begin(), svg.end(), ','), 1200);
}

TEST(SvgChart, DrawsStackedBars) {
  const StackedBars chart{"Phases", "ms", {"a", "b"}, {{"run", {1, 3}}}};
  const std::string svg = draw_bars(chart);
  // 366 pixels for 4 ms: 91.5 for the first part, 274.5 for the second.
  EXPECT_THAT(svg, HasSubstr("x=\"130.0\" y=\"19.0\" width=\"91.50\""));
  EXPECT_THAT(svg, HasSubstr("x=\"221.5\" y=\"19.0\" width=\"274.50\""));
  EXPECT_EQ(draw_bars({"Phases", "ms", {}, {}}), "");
}

}  // namespace
}  // namespace atl
