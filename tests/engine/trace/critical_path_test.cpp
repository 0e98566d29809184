// Critical paths followed by hand (two_ranks.hpp).
#include "engine/trace/critical_path.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/trace/two_ranks.hpp"

namespace atl {
namespace {

using testing::ElementsAre;
using testing::Pair;

// "wait@0 58-60", "packet@1>0 33-58".
std::vector<std::string> lines(const CriticalPath& path) {
  std::vector<std::string> text;
  for (const PathStep& step : path.steps) {
    const std::string place = step.destination < 0
                                  ? std::to_string(step.rank)
                                  : fmt::format("{}>{}", step.rank, step.destination);
    text.push_back(fmt::format("{}@{} {:g}-{:g}", step.name, place, step.begin_us, step.end_us));
  }
  return text;
}

CriticalPath path_of(const TwoRanks& ranks) {
  return critical_path(make_dataflow(ranks.merged(), 1));
}

// Rank 1 ends last, but waited in the sum for rank 0, which had waited for rank 1's packet.
TEST(CriticalPath, GoesThroughPacketsAndSums) {
  const CriticalPath path = path_of({});
  EXPECT_THAT(lines(path),
              ElementsAre("prepare marginal@1 5-30", "post@1 30-33", "packet@1>0 33-58",
                          "wait@0 58-60", "spmm marginal@0 60-90", "all-reduce@1 90-100",
                          "step@1 100-103", "(between spans)@1 103-105"));
  EXPECT_EQ(path.duration_us(), 100);
  EXPECT_THAT(path.us_by_name(),
              ElementsAre(Pair("(between spans)", 2), Pair("all-reduce", 10), Pair("packet", 25),
                          Pair("post", 3), Pair("prepare marginal", 25), Pair("spmm marginal", 30),
                          Pair("step", 3), Pair("wait", 2)));
  EXPECT_THAT(path.us_by_place(),
              ElementsAre(Pair("rank 0", 32), Pair("rank 1", 43), Pair("rank 1 -> 0", 25)));
}

// One rank alone: every span and every gap, in order.
TEST(CriticalPath, OfOneRankIsItsEpoch) {
  MadeTrace made({"a"});
  made.epoch(0, 10, 50).work(0, "loss", 12, 20).work(0, "step", 25, 50);
  const MergedTrace merged = merge_trace(made.trace());
  const CriticalPath path = critical_path(make_dataflow(merged, 1));
  EXPECT_THAT(lines(path), ElementsAre("(between spans)@0 0-2", "loss@0 2-10",
                                       "(between spans)@0 10-15", "step@0 15-40"));
}

TEST(CriticalPath, OfAnEpochWithoutSpansIsAGap) {
  MadeTrace made({"a"});
  made.epoch(0, 10, 50);
  EXPECT_THAT(lines(critical_path(make_dataflow(merge_trace(made.trace()), 1))),
              ElementsAre("(between spans)@0 0-40"));
}

// The sum's wait falls away when rank 0 is early, and rank 1's wait is for a packet that it had
// posted itself later than rank 0 had sent it.
TEST(CriticalPath, ALateReceiverIsItsOwnCause) {
  MadeTrace made({"a", "a"});
  TwoRanks{.to_1_arrived = 52}.add_to(made);
  Trace trace = made.trace();
  for (TraceEvent& event : trace.ranks[0].events) {
    if (event.is_reduction()) event.begin_us = 75;
  }
  const CriticalPath path = critical_path(make_dataflow(merge_trace(trace), 1));
  EXPECT_THAT(lines(path),
              ElementsAre("prepare marginal@1 5-30", "post@1 30-33", "packet@0>1 33-52",
                          "wait@1 52-55", "spmm marginal@1 55-80", "all-reduce@1 80-100",
                          "step@1 100-103", "(between spans)@1 103-105"));
}

// A wait ends only when its own packets have left, too.
TEST(CriticalPath, ASlowSendIsOnThePath) {
  MadeTrace made({"a", "a"});
  TwoRanks{.to_1_arrived = 56, .to_0_sent = 58, .wait_1_end = 60}.add_to(made);
  Trace trace = made.trace();
  for (TraceEvent& event : trace.ranks[0].events) {
    if (event.is_reduction()) event.begin_us = 75;
  }
  const CriticalPath path = critical_path(make_dataflow(merge_trace(trace), 1));
  EXPECT_THAT(lines(path),
              ElementsAre("prepare marginal@1 5-30", "post@1 30-33", "send@1>0 33-58",
                          "wait@1 58-60", "spmm marginal@1 60-80", "all-reduce@1 80-100",
                          "step@1 100-103", "(between spans)@1 103-105"));
}

// With clocks that are known to 27 us only, the path still has no gaps and no overlaps.
TEST(CriticalPath, HoldsTogetherOnAlignedClocks) {
  const CriticalPath path = path_of({.second_host = "b", .second_clock = 1000});
  ASSERT_FALSE(path.steps.empty());
  for (std::size_t i = 1; i < path.steps.size(); ++i) {
    EXPECT_EQ(path.steps[i].begin_us, path.steps[i - 1].end_us) << i;
  }
  double sum = 0;
  for (const auto& [name, us] : path.us_by_name()) sum += us;
  EXPECT_NEAR(sum, path.duration_us(), 1e-9);
}

TEST(CriticalPath, IsWrittenFromTheBeginOfTheEpoch) {
  const DataflowGraph graph = make_dataflow(TwoRanks{}.merged(), 1);
  const Json json = to_json(critical_path(graph), graph);
  EXPECT_EQ(json.at("duration_us"), 100);
  EXPECT_EQ(json.at("us_by_place").at("rank 1 -> 0"), 25);
  EXPECT_EQ(json.at("steps")[2].at("name"), "packet");
  EXPECT_EQ(json.at("steps")[2].at("destination"), 0);
  EXPECT_EQ(json.at("steps")[2].at("end_us"), 58);
}

}  // namespace
}  // namespace atl
