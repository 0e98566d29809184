#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "base/error.hpp"
#include "launch/report/bit_records.hpp"
#include "launch/report/report_options.hpp"
#include "launch/report/report_page.hpp"
#include "launch/report/report_table.hpp"
#include "launch/report/run_records.hpp"
#include "launch/report/svg_chart.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pointwise;
using ::testing::UnorderedElementsAre;

constexpr const char* kTwoEpochs =
    R"({"epoch": 1, "loss": 2.5, "valid": 0.25, "epoch_ms": 30, "phases": {"forward": 10, "step": 1}})"
    "\n"
    R"({"epoch": 2, "loss": 1.5, "valid": null, "epoch_ms": 20, "bytes_sent": 1000, "phases": {"forward": 20, "wait": 4}})"
    "\n";

// Ten messages from epoch 1 on, 6 at 2 bits and 4 at 8; from epoch 3 on all forward ones at 1 bit.
constexpr const char* kAdaptiveEpochs =
    R"({"epoch": 1, "assignment": {"solver_ms": null, "mean_bits": 4.4, "channels": [)"
    R"({"layer": 1, "direction": "backward", "rows": 4, "bits": {"8": 4}},)"
    R"({"layer": 1, "direction": "forward", "rows": 6, "bits": {"1": 0, "2": 6}, "wire_ms": null}]}})"
    "\n"
    R"({"epoch": 2})"
    "\n"
    R"({"epoch": 3, "assignment": {"solver_ms": 3.5, "gap": 1e-4, "mean_bits": 3.8, "channels": [)"
    R"({"layer": 1, "direction": "backward", "bits": {"8": 4}},)"
    R"({"layer": 1, "direction": "forward", "bits": {"1": 6}}]}})"
    "\n"
    R"({"epoch": 4})"
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
  static void write_file(const std::filesystem::path& path, const std::string& text) {
    std::ofstream(path) << text;
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
                                                     std::pair<std::string, double>("step", 0.5),
                                                     std::pair<std::string, double>("wait", 2)));
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
  EXPECT_THAT(refusal(write_run("large", "{\"epoch\": 1}\n{\"epoch\": 2, \"loss\": 1e999}\n")),
              HasSubstr("metrics.jsonl:2: not valid JSON"));
  EXPECT_THAT(refusal(write_run("deep", "{\"epoch\": 1}\n" + std::string(200000, '[') + "\n")),
              HasSubstr("metrics.jsonl:2: byte 100: nested more than 100 deep"));
  EXPECT_THAT(refusal(write_run("type", "{\"epoch\": 1, \"loss\": \"low\"}\n")),
              HasSubstr("metrics.jsonl:1: 'loss' is \"low\""));
  EXPECT_THAT(refusal(write_run("no-epoch", "{\"loss\": 1}\n")), HasSubstr("'epoch' is missing"));
  EXPECT_THAT(refusal(write_run("list", "[1]\n")), HasSubstr("expected an object"));
  EXPECT_THAT(refusal(write_run("phases", "{\"epoch\": 1, \"phases\": {\"a\": \"b\"}}\n")),
              HasSubstr("phase 'a'"));
  EXPECT_THAT(refusal(write_run("summary", kTwoEpochs, "{")), HasSubstr("summary.json"));
}

TEST_F(RunFolderTest, ReadsAssignments) {
  const RunRecord run = read_run(write_run("a", kAdaptiveEpochs));
  ASSERT_TRUE(run.epochs[0].assignment);
  const RecordedAssignment& first = *run.epochs[0].assignment;
  EXPECT_EQ(first.solver_ms, std::nullopt);
  ASSERT_EQ(first.channels.size(), 2U);
  EXPECT_EQ(first.channels[0].layer, 1);
  EXPECT_EQ(first.channels[0].direction, "backward");
  EXPECT_THAT(first.channels[0].messages, ElementsAre(0, 0, 0, 4, 0, 0));
  EXPECT_THAT(first.total().messages, ElementsAre(0, 6, 0, 4, 0, 0));
  EXPECT_FALSE(run.epochs[1].assignment);
  EXPECT_EQ(median_of(run.epochs, &EpochRecord::solver_ms), 3.5);
  // An assignment holds until the next.
  std::vector<double> bits;
  for (const EpochRecord& epoch : run.epochs) bits.push_back(epoch.mean_bits.value_or(-1));
  EXPECT_THAT(bits, Pointwise(DoubleEq(), {4.4, 4.4, 3.8, 3.8}));
}

TEST_F(RunFolderTest, NamesWhatIsWrongInAssignments) {
  const auto refused = [&](const std::string& assignment) {
    return refusal(
        write_run("bad", "{\"epoch\": 1}\n{\"epoch\": 2, \"assignment\": " + assignment + "}\n"));
  };
  const auto channel = [&](const std::string& text) {
    return refused(R"({"channels": [{"layer": 0, "direction": "forward", "bits": {}}, )" + text +
                   "]}");
  };
  EXPECT_THAT(refused("3"), HasSubstr("metrics.jsonl:2: 'assignment' is 3; it must be an object"));
  EXPECT_THAT(refused("{}"), HasSubstr("metrics.jsonl:2: assignment: 'channels' is missing"));
  EXPECT_THAT(refused(R"({"channels": [], "solver_ms": "x"})"),
              HasSubstr("metrics.jsonl:2: assignment: 'solver_ms' is \"x\""));
  EXPECT_THAT(channel("7"), HasSubstr("metrics.jsonl:2: assignment: channel 1: is 7"));
  EXPECT_THAT(channel(R"({"layer": 1.5})"), HasSubstr("channel 1: 'layer' is missing or not an"));
  EXPECT_THAT(channel(R"({"layer": 1, "direction": "up"})"),
              HasSubstr("'direction' is \"up\"; it must be \"forward\" or \"backward\""));
  EXPECT_THAT(channel(R"({"layer": 1, "direction": "forward"})"), HasSubstr("'bits' is missing"));
  EXPECT_THAT(channel(R"({"layer": 1, "direction": "forward", "bits": {"3": 1}})"),
              HasSubstr("names the width '3'; widths are 1, 2, 4, 8, 16, 32"));
  EXPECT_THAT(channel(R"({"layer": 1, "direction": "forward", "bits": {"2": -1}})"),
              HasSubstr("gives -1 messages of width 2"));
  EXPECT_THAT(
      channel(R"({"layer": 1, "direction": "forward", "rows": 3, "bits": {"2": 1, "8": 3}})"),
      HasSubstr("'rows' is 3; it must be at least the 4 messages that have a width"));
}

TEST_F(RunFolderTest, PageShowsHowManyMessagesAreSent) {
  // All ten, then a fifth, then those that forward has.
  const auto epochs = [](const std::string& forward, const std::string& backward) {
    return R"("assignment": {"mean_bits": 8, "channels": [)"
           R"({"layer": 1, "direction": "forward", "rows": 6, "bits": {"32": )" +
           forward + R"(}}, {"layer": 1, "direction": "backward", "rows": 4, "bits": {"32": )" +
           backward + "}}]}}\n";
  };
  const std::string all = "{\"epoch\": 1, " + epochs("6", "4");
  const std::string some = "{\"epoch\": 2, " + epochs("1", "1") + "{\"epoch\": 3, " +
                           epochs("6", "0") + "{\"epoch\": 4}\n";
  const RunRecord run = read_run(write_run("turns", all + some, R"({"share_sent": 0.5})"));
  std::vector<double> shares;
  for (const EpochRecord& epoch : run.epochs) shares.push_back(epoch.share_sent.value_or(-1));
  EXPECT_THAT(shares, Pointwise(DoubleEq(), {1.0, 0.2, 0.6, 0.6}));
  const std::string page = make_report({run});
  EXPECT_THAT(page, HasSubstr("Messages that are sent"));
  EXPECT_THAT(page, HasSubstr("data-label=\"% sent\">60</td>"));
  EXPECT_THAT(page, HasSubstr("Messages that are not sent leave a gap."));
  EXPECT_THAT(page, HasSubstr("32 bits: 60.0% at the end"));
  const std::string whole = make_report({read_run(write_run("all", all))});
  for (const char* words : {"Messages that are sent", "% sent", "leave a gap"}) {
    EXPECT_THAT(whole, Not(HasSubstr(words)));
  }
}

TEST_F(RunFolderTest, PageShowsWidths) {
  const auto summary = R"({"bits": "adaptive", "bytes_sent_per_epoch": 1})";
  const std::string page = make_report({read_run(write_run("<w>", kAdaptiveEpochs, summary)),
                                        read_run(write_run("exact", kTwoEpochs))});
  EXPECT_THAT(page, HasSubstr("data-label=\"bits\">adaptive</td>"));
  EXPECT_THAT(page, HasSubstr("<td class=\"number\" data-label=\"mean bits\">3.8</td>"
                              "<td class=\"number\" data-label=\"solver ms\">3.5</td>"));
  EXPECT_THAT(page, HasSubstr("Bits per value, mean over all messages"));
  EXPECT_THAT(page, HasSubstr("Widths of messages: &lt;w&gt;"));
  EXPECT_THAT(page, HasSubstr("8 bits: 40.0% at the end"));
  EXPECT_THAT(page, HasSubstr("layer 1 forward 1 bit: 100.0% at the end"));
  EXPECT_THAT(page, HasSubstr("layer 1 forward 2 bits: 0.0% at the end"));
  EXPECT_LT(page.find(">layer 1 forward<"), page.find(">layer 1 backward<"));
  EXPECT_THAT(page, Not(HasSubstr("Widths of messages: exact")));
  EXPECT_THAT(page, Not(HasSubstr(">16 bits<")));  // no message has this width
}

TEST_F(RunFolderTest, PageShowsNoMoreOfOneWidth) {
  const auto epochs = R"({"epoch": 1, "assignment": {"mean_bits": 4, "channels": [)"
                      R"({"layer": 0, "direction": "forward", "bits": {"4": 9}},)"
                      R"({"layer": 1, "direction": "forward", "bits": {"4": 9}}]}})"
                      "\n";
  const std::string page = make_report({read_run(write_run("uniform", epochs))});
  EXPECT_THAT(page, HasSubstr("Widths of messages: uniform"));
  EXPECT_THAT(page, Not(HasSubstr("By layer and direction")));
  EXPECT_THAT(page, HasSubstr("data-label=\"mean bits\">4</td>"));
  EXPECT_THAT(make_report({read_run(write_run("exact", kTwoEpochs))}),
              Not(HasSubstr("Share of the messages at each width")));
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
  EXPECT_THAT(page, Not(HasSubstr("Test score")));  // no run has one
  EXPECT_THAT(page, Not(HasSubstr("http")));        // nothing is fetched
  // The script is on the page, and knows every value as text: 0.25 of epoch 1.
  EXPECT_THAT(page, Not(HasSubstr("<script src")));
  EXPECT_THAT(page, HasSubstr("function valuesAt"));
  EXPECT_THAT(page, HasSubstr("[1.0,&quot;25%&quot;]"));
  EXPECT_THAT(page, Not(HasSubstr("can't be compared")));
  EXPECT_THAT(page, Not(HasSubstr("over seeds")));
}

TEST_F(RunFolderTest, SeedsHaveMeanAndDeviation) {
  std::vector<RunRecord> runs;
  const double scores[] = {0.5, 0.6, 0.7, 0.9};
  for (int i = 0; i < 4; ++i) {
    const std::string name = fmt::format("run{}", i);
    const auto folder = write_run(
        name, kTwoEpochs, fmt::format(R"({{"metric": "accuracy", "test": {}}})", scores[i]));
    write_file(folder / "config.toml", fmt::format("dataset = \"data/a\"\nlr = {}\nseed = {}\n",
                                                   i < 3 ? 0.01 : 0.5, i + 1));
    runs.push_back(read_run(folder));
  }
  const std::string page = make_report(runs);
  // Only the first three are summed up: the fourth has another rate.
  EXPECT_THAT(page, HasSubstr("run0, run1, run2"));
  EXPECT_THAT(page, HasSubstr("60.00% ± 10.00%"));
  EXPECT_THAT(page, Not(HasSubstr("can't be compared")));
}

TEST_F(RunFolderTest, OptionsStandInGroupsAndAreThoseThatTheModelReads) {
  std::vector<RunRecord> runs;
  for (const std::string model : {"gcn", "gat", "sage"}) {
    const auto folder = write_run(model, kTwoEpochs);
    write_file(folder / "config.toml",
               fmt::format("model = \"{}\"\nheads = 8\nhops = 10\nlr = 0.5\naggregator = "
                           "\"mean\"\noptimizer = \"adam\"\nthreads = 1\n",
                           model));
    runs.push_back(read_run(folder));
  }
  const std::vector<ComparedOption> options = compare_options(runs);
  std::vector<std::string> keys;
  for (const ComparedOption& option : options) {
    keys.push_back(option.group + ": " + option.key + (option.differs() ? " differs" : ""));
  }
  EXPECT_THAT(keys,
              UnorderedElementsAre("Model: model differs", "Model: heads", "Model: aggregator",
                                   "Optimizer: lr", "Optimizer: optimizer", "Machine: threads"));
  EXPECT_THAT(make_report(runs), HasSubstr("<h3>Optimizer</h3>"));
}

TEST_F(RunFolderTest, OtherDatasetsAreRemarked) {
  std::vector<RunRecord> runs;
  for (const std::string name : {"a", "b", "c"}) {
    const auto folder = write_run(name, kTwoEpochs);
    write_file(folder / "config.toml",
               fmt::format("dataset = \"data/{}\"\n", name == "c" ? "b" : name));
    runs.push_back(read_run(folder));
  }
  EXPECT_THAT(make_report(runs), HasSubstr("<b>The runs have 2 datasets</b> (data/a, data/b)"));
  runs.erase(runs.begin());
  EXPECT_THAT(make_report(runs), Not(HasSubstr("datasets</b>")));
}

// Phases that only the first epoch has count nothing in a usual one: phases add up to it.
TEST_F(RunFolderTest, PhasesOfTheFirstEpochAloneCountNothing) {
  std::string metrics =
      R"({"epoch": 1, "epoch_ms": 313, "phases": {"input dropout": 114, "forward": 150, "step": 49}})"
      "\n";
  for (int epoch = 2; epoch <= 4; ++epoch) {
    metrics +=
        fmt::format(R"({{"epoch": {}, "epoch_ms": 233, "phases": {{"forward": 180, "step": 53}}}})"
                    "\n",
                    epoch);
  }
  metrics += R"({"epoch": 5, "epoch_ms": 200, "phases": {}})"  // replayed: nothing was timed
             "\n";
  const RunRecord run = read_run(write_run("a", metrics));
  EXPECT_THAT(median_phases(run.epochs),
              ElementsAre(std::pair<std::string, double>("input dropout", 0),
                          std::pair<std::string, double>("forward", 180),
                          std::pair<std::string, double>("step", 53)));
  const std::string page = make_report({run});
  EXPECT_THAT(page, HasSubstr(">233</text>"));  // the bar's total
  EXPECT_THAT(page, Not(HasSubstr("input dropout")));
}

TEST_F(RunFolderTest, ScoresHaveTheNameOfTheirMetric) {
  const auto a =
      write_run("a", kTwoEpochs, R"({"metric": "micro-F1", "valid": 0.5, "test": 0.25})");
  const auto b = write_run("b", kTwoEpochs, R"({"metric": "ROC-AUC", "valid": 0.5})");
  const auto c = write_run("c", kTwoEpochs);
  write_file(a / "config.toml", "dataset = 'ppi'\n");
  write_file(c / "config.toml", "dataset = 'ppi'\n");  // has not ended: as the other run on it
  const std::string one = make_report({read_run(a), read_run(c)});
  EXPECT_THAT(one, HasSubstr("<th class=\"number\">valid micro-F1</th>"));
  EXPECT_THAT(one, HasSubstr("<figcaption>Validation micro-F1</figcaption>"));
  EXPECT_THAT(one, HasSubstr("text-anchor=\"middle\">micro-F1</text>"));
  EXPECT_THAT(one, Not(HasSubstr("score</")));
  const std::string two = make_report({read_run(a), read_run(b)});
  EXPECT_THAT(two, HasSubstr("<th>metric</th>"));
  EXPECT_THAT(two, HasSubstr("<figcaption>Validation micro-F1</figcaption>"));
  EXPECT_THAT(two, HasSubstr("<figcaption>Validation ROC-AUC</figcaption>"));
  EXPECT_THAT(make_report({read_run(write_run("d", kTwoEpochs))}), HasSubstr("valid score"));
}

TEST_F(RunFolderTest, ResultsComeFirstAndUnusedColumnsAreDropped) {
  const char* summary = R"({"metric": "accuracy", "valid": 0.5, "test": 0.25, "train": 0.75,
                            "ranks": 1, "exposed_comm_ms_median": 0.001, "epochs": 2})";
  const std::string epochs =
      R"({"epoch": 1, "valid": 0.5, "bytes_sent": 0, "exposed_comm_ms": 0.001})"
      "\n";
  const std::string alone = make_report({read_run(write_run("alone", epochs, summary))});
  const auto at = [&](const char* heading) {
    const std::size_t found = alone.find(std::string(">") + heading + "</th>");
    EXPECT_NE(found, std::string::npos) << heading;
    return found;
  };
  EXPECT_LT(at("run"), at("valid accuracy"));
  EXPECT_LT(at("valid accuracy"), at("test accuracy"));
  EXPECT_LT(at("test accuracy"), at("train accuracy"));
  EXPECT_LT(at("train accuracy"), at("epochs"));
  for (const char* unused : {"mean bits", "solver ms", "ms waiting", "sent per epoch", "MB"}) {
    EXPECT_THAT(alone, Not(HasSubstr(unused)));
  }
  EXPECT_THAT(alone, Not(HasSubstr("Communication not hidden")));
  // One rank beside several: its cells are empty.
  const std::string both =
      make_report({read_run(folder_.path() / "alone"),
                   read_run(write_run("two", kTwoEpochs, "{\"exposed_comm_ms_median\": 3}"))});
  EXPECT_THAT(both, HasSubstr("<td class=\"number none\" data-label=\"ms waiting\">–</td>"));
  EXPECT_THAT(both, HasSubstr("<td class=\"number\" data-label=\"ms waiting\">3</td>"));
}

TEST_F(RunFolderTest, UnfinishedRunsShowTheirBestEpochSoFar) {
  const auto line = [](int epoch, double valid, double test) {
    return fmt::format("{{\"epoch\": {}, \"valid\": {}, \"test\": {}}}\n", epoch, valid, test);
  };
  const std::string page = make_report(
      {read_run(write_run("a", line(1, 0.5, 0.9) + line(2, 0.75, 0.625) + line(3, 0.7, 0.8)))});
  EXPECT_THAT(page, HasSubstr("data-label=\"valid score\">75.00%</td>"));
  EXPECT_THAT(page, HasSubstr("data-label=\"test score\">62.50%</td>"));
  EXPECT_THAT(page, HasSubstr("data-label=\"best epoch\">2</td>"));
}

// R2 may be negative: it is a number, where other scores are shares.
TEST_F(RunFolderTest, ShowsR2AsANumber) {
  const std::string page = make_report({read_run(write_run(
      "a", kTwoEpochs, R"({"metric": "R2", "valid": -0.25, "test": 0.5, "mae": {"test": 3}})"))});
  EXPECT_THAT(page, HasSubstr("data-label=\"valid R2\">-0.25</td>"));
  EXPECT_THAT(page, HasSubstr("data-label=\"test R2\">0.5</td>"));
}

TEST_F(RunFolderTest, ShowsAllMetricsAndClassesOfTheTestNodes) {
  const char* summary = R"({"metric": "log-loss", "valid": 1.5, "test": 1.25,
      "f1-macro": {"train": 1, "valid": 0.5, "test": 0.375}, "log-loss": {"test": 1.25},
      "classes": {"test": {"precision": [0.5, 0.25], "recall": [1, 0.75], "f1": [0.625, 0],
                           "support": [30, 4], "confusion": [[28, 2], [1, 3]]}}})";
  const std::string page = make_report({read_run(write_run("a", kTwoEpochs, summary))});
  EXPECT_THAT(page, HasSubstr("data-label=\"valid log-loss\">1.5</td>"));
  EXPECT_THAT(page, HasSubstr("data-label=\"macro-F1\">37.50%</td>"));
  EXPECT_THAT(page, HasSubstr("Classes of the test nodes: a"));
  EXPECT_THAT(page, HasSubstr("data-label=\"precision\">25.00%</td>"));
  EXPECT_THAT(page, HasSubstr("data-label=\"as 1\">2</td>"));
  // Malformed metrics are left out.
  const char* odd = R"({"f1-macro": 3, "classes": {"test": {"support": {"a": 1}}}})";
  EXPECT_THAT(make_report({read_run(write_run("b", kTwoEpochs, odd))}),
              Not(HasSubstr("Classes of the test nodes")));
}

// The best epoch so far of a run that has not ended: the one with the lowest loss.
TEST_F(RunFolderTest, KnowsMetricsOfWhichLessIsBetter) {
  const char* lines = R"({"epoch": 1, "valid": 0.5})"
                      "\n"
                      R"({"epoch": 2, "valid": 0.75})"
                      "\n";
  const auto other = write_run("a", kTwoEpochs, R"({"metric": "MAE", "valid": 0.25})");
  const auto open = write_run("b", lines);
  write_file(other / "config.toml", "dataset = 'cora'\n");
  write_file(open / "config.toml", "dataset = 'cora'\n");
  const std::string page = make_report({read_run(open), read_run(other)});
  EXPECT_THAT(page, HasSubstr("data-label=\"best epoch\">1</td>"));
  EXPECT_THAT(page, HasSubstr("data-label=\"valid MAE\">0.5</td>"));
}

TEST_F(RunFolderTest, PageTellsWhatHappenedUnderASupervisor) {
  const auto a = write_run("a", kTwoEpochs);
  EXPECT_THAT(make_report({read_run(a)}), Not(HasSubstr("Failures and restarts")));
  write_file(
      a / "events.jsonl",
      R"({"time": "T1", "event": "started", "epoch": 0, "ranks": 4, "text": "4 ranks"})"
      "\n"
      R"({"time": "T2", "event": "failed", "epoch": 2, "ranks": 4, "text": "rank 1 <is gone>"})"
      "\n"
      R"({"time": "T3", "ev)");  // caught writing
  const RunRecord run = read_run(a);
  ASSERT_EQ(run.events.size(), 2);
  EXPECT_EQ(run.events[1].epoch, 2);
  const std::string page = make_report({run});
  EXPECT_THAT(page, HasSubstr("<h2>Failures and restarts</h2>"));
  EXPECT_THAT(page, HasSubstr("<title>a: failed: rank 1 &lt;is gone&gt;</title>"));
  EXPECT_THAT(page, Not(HasSubstr("a: started")));
  EXPECT_THAT(page, Not(HasSubstr("<is gone>")));
  EXPECT_THAT(page, HasSubstr("4 ranks"));  // in the table
  write_file(a / "events.jsonl", "{\"epoch\": 1}\n");
  EXPECT_THAT(refusal(a), HasSubstr("names no event"));
}

TEST_F(RunFolderTest, NamesOptionsThatDiffer) {
  const auto a = write_run("a", kTwoEpochs, R"({"ranks": 2, "commit": "abc"})");
  const auto b = write_run("b", kTwoEpochs, R"({"ranks": 4, "commit": "abc"})");
  write_file(a / "config.toml",
             "dataset = 'x<y'\nhidden = 64\nranks = 0\nexchange = 'exact'\nbits = 'adaptive'\n"
             "lr-schedule = 'constant'\nlr-step-factor = 0.5\nlambda = 0.5\nrun-dir = 'a'\n");
  write_file(b / "config.toml",
             "dataset = 'x<y'\nhidden = 128\nranks = 0\nexchange = 'quantized'\nbits = 'adaptive'\n"
             "lr-schedule = 'constant'\nlr-step-factor = 0.25\nlambda = 0.5\nrun-dir = 'b'\n");
  const std::string page = make_report({read_run(a), read_run(b)});
  const std::size_t begin = page.find("<h2>Options that differ</h2>");
  const std::size_t end = page.find("<h2>Curves</h2>");
  ASSERT_LT(begin, end);
  const std::string differ = page.substr(begin, end - begin);
  EXPECT_THAT(differ, HasSubstr("data-label=\"hidden\">64</td>"));
  EXPECT_THAT(differ, HasSubstr("data-label=\"hidden\">128</td>"));
  EXPECT_THAT(differ, HasSubstr("data-label=\"ranks\">4</td>"));
  EXPECT_THAT(differ, HasSubstr("<td class=\"none\" data-label=\"bits\">–</td>"));  // exact
  EXPECT_THAT(differ, HasSubstr("data-label=\"bits\">adaptive</td>"));
  for (const char* same : {"dataset", "lr-step-factor", "lambda", "run-dir", "commit"}) {
    EXPECT_THAT(differ, Not(HasSubstr(same)));
  }
  const std::string shared = page.substr(page.find("<h2>Options that all runs share</h2>"));
  EXPECT_THAT(shared, HasSubstr("<dt>dataset</dt><dd>x&lt;y</dd>"));
  EXPECT_THAT(shared, HasSubstr("<dt>commit</dt><dd>abc</dd>"));
  EXPECT_THAT(shared, HasSubstr("<dt>lambda</dt><dd>0.5</dd>"));  // follows from exchange
  EXPECT_THAT(shared, Not(HasSubstr("<dt>hidden")));
  const std::string alone = make_report({read_run(a)});
  EXPECT_THAT(alone, HasSubstr("<h2>Options</h2>"));
  EXPECT_THAT(alone, HasSubstr("<dt>hidden</dt><dd>64</dd>"));
  EXPECT_THAT(alone, Not(HasSubstr("Options that differ")));
}

TEST_F(RunFolderTest, DamagedOptionsAreNamed) {
  const auto run = write_run("a", kTwoEpochs);
  write_file(run / "config.toml", "lr = 0.1\nepochs = = 3\n");
  const Error error = thrown_error([&] { read_run(run); });
  EXPECT_THAT(error.what(), HasSubstr("config.toml:2:10: not valid TOML"));
}

TEST_F(RunFolderTest, NamesControlNothing) {
  const std::string page =
      make_report({read_run(write_run("a\x1b[31m\xe2\x80\xae", kTwoEpochs, "{\"x\": 1}"))});
  EXPECT_THAT(page, HasSubstr("a\\x1b[31m\\u202e"));
  EXPECT_THAT(page, Not(HasSubstr("\x1b")));
}

TEST(ReportTable, BecomesCardsWhereItWouldNotFit) {
  const auto rules = [](const std::vector<TableColumn>& columns) {
    const std::string html = draw_table("t", {{"run", "", 0}}, columns);
    return html.substr(0, html.find("</style>"));
  };
  // A column of ten letters is 102 pixels wide, the name's one 62, the page beside it 60.
  EXPECT_THAT(rules({{"0123456789", true, {"1"}}}), HasSubstr("@media (max-width: 224px) {"));
  EXPECT_THAT(rules({{"a", true, {"0123456789"}}, {"unused", true, {""}}}),
              HasSubstr("@media (max-width: 224px) {"));
  // Wider than the page ever is: cards in every window.
  EXPECT_THAT(rules(std::vector<TableColumn>(20, {"0123456789", true, {"1"}})),
              Not(HasSubstr("@media")));
  const std::string html = draw_table("t", {{"<a>", "(b)", 1}}, {{"c\"d", false, {"e&f"}}});
  EXPECT_THAT(html, HasSubstr("&lt;a&gt; <span class=\"quiet\">(b)</span></td>"
                              "<td data-label=\"c&quot;d\">e&amp;f</td>"));
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

TEST(SvgChart, ADivergedRunDoesNotStretchTheAxis) {
  LineChart chart{"Loss", "epoch", "loss", false, true, {{"good", 0, {}}, {"bad", 1, {}}}};
  for (int i = 1; i <= 20; ++i) {
    chart.series[0].points.emplace_back(i, 2.0 / i);
    chart.series[1].points.emplace_back(i, i < 15 ? 2.0 : 1e21);
  }
  const std::string svg = draw_lines(chart);
  EXPECT_THAT(svg, HasSubstr("Beyond the axis: bad from epoch 15 on (as far as 1e+21).</p>"));
  // As the same runs without what is cut: 2 stands where it stood, and the rest at the axis's end.
  EXPECT_THAT(svg, HasSubstr("points=\"64.0,24.7 "));
  EXPECT_THAT(svg, HasSubstr(" 544.0,14.0\""));
  // The pointer still finds the value.
  EXPECT_THAT(svg, HasSubstr("[20.0,&quot;1e+21&quot;]"));
}

TEST(SvgChart, ACurveThatFallsFarIsWhole) {
  LineChart chart{"Loss", "epoch", "loss", false, true, {{"run", 0, {{1, 100}}}}};
  for (int i = 2; i <= 50; ++i) chart.series[0].points.emplace_back(i, 1 + 0.01 / i);
  EXPECT_THAT(draw_lines(chart), Not(HasSubstr("Beyond the axis")));
  chart.series[0].points = {{1, 0.5}, {2, 0.5}, {3, 0.5}};
  EXPECT_THAT(draw_lines(chart), Not(HasSubstr("Beyond the axis")));
  chart.series[0].points = {{1, 0}, {2, 0}, {3, 7}};
  EXPECT_THAT(draw_lines(chart), Not(HasSubstr("Beyond the axis")));
}

TEST(SvgChart, DrawsLongSeriesWithTheirEnds) {
  LineChart chart{"Loss", "epoch", "loss", false, true, {{"run", 0, {}}}};
  for (int i = 0; i < 2500; ++i) chart.series.front().points.emplace_back(i, 1);
  const std::string svg = draw_lines(chart);
  EXPECT_THAT(svg, HasSubstr("points=\"64.0,"));
  EXPECT_THAT(svg, HasSubstr(" 544.0,"));
  const std::string drawn = svg.substr(svg.find("points=\"64.0,"));
  EXPECT_LT(std::count(drawn.begin(), drawn.end(), ','), 1200);
}

TEST(SvgChart, DrawsStackedBars) {
  const StackedBars chart{"Phases", "ms", {"a", "b"}, {{"run", {1, 3}}}};
  const std::string svg = draw_bars(chart);
  // 366 pixels for 4 ms: 91.5 for the first part, 274.5 for the second.
  EXPECT_THAT(svg, HasSubstr("x=\"130.0\" y=\"19.0\" width=\"91.50\""));
  EXPECT_THAT(svg, HasSubstr("x=\"221.5\" y=\"19.0\" width=\"274.50\""));
  EXPECT_EQ(draw_bars({"Phases", "ms", {}, {}}), "");
}

TEST(SvgChart, DrawsStackedAreas) {
  // One panel: x 0.5 .. 4.5 on pixels 64 .. 544, y 0 .. 1 on pixels 218 .. 20.
  StackedAreas chart{"Widths", "epoch", {"a", "b", "c"}, 4.5, {{"", {{0.5, {0.5, 0, 0.5}}}}}};
  chart.panels[0].steps.push_back({2.5, {0.25, 0, 0.75}});
  const std::string svg = draw_areas(chart);
  EXPECT_THAT(svg, HasSubstr("d=\"M64.0 119.0H304.0V168.5H544.0V218.0H304.0V218.0H64.0Z\""));
  EXPECT_THAT(svg, HasSubstr("d=\"M64.0 20.0H304.0V20.0H544.0V168.5H304.0V119.0H64.0Z\""));
  EXPECT_THAT(svg, HasSubstr("fill:var(--w2)"));
  EXPECT_THAT(svg, Not(HasSubstr("var(--w1)")));  // never occurs
  chart.panels[0].steps.clear();
  EXPECT_EQ(draw_areas(chart), "");
}

TEST(SvgChart, DrawsPanelsInRows) {
  StackedAreas chart{"Widths", "epoch", {"a"}, 2, {}};
  for (const char* name : {"p", "q", "r", "s"}) chart.panels.push_back({name, {{1, {1}}}});
  chart.panels[1].steps.clear();  // an empty panel keeps its place
  const std::string svg = draw_areas(chart);
  EXPECT_THAT(svg, HasSubstr("d=\"M64.0 20.0H216.0V110.0H64.0Z\""));    // p, first row
  EXPECT_THAT(svg, HasSubstr("d=\"M392.0 20.0H544.0V110.0H392.0Z\""));  // r, third column
  EXPECT_THAT(svg, HasSubstr("d=\"M64.0 150.0H216.0V240.0H64.0Z\""));   // s, second row
  EXPECT_THAT(svg, HasSubstr("viewBox=\"0 0 560 280\""));
}

}  // namespace
}  // namespace atl
