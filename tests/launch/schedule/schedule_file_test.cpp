#include "launch/schedule/schedule_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include "base/error.hpp"
#include "launch/schedule/schedule_slots.hpp"
#include "launch/schedule/schedule_table.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kNever = std::numeric_limits<double>::infinity();

// Two hosts of two slots. Job 0 has one slot of each and moves to both of the second when job 1
// comes, which has the first host.
ScheduleFile example() {
  ScheduleFile file;
  file.list = "jobs.toml";
  file.topology = "cluster.json";
  file.policy = "marginal";
  file.elastic = false;
  file.jobs = {{.name = "a, exact, seed 1", .epochs = 30, .most_ranks = 4},
               {.name = "b, exact, seed 1",
                .arrival_s = 7.125,
                .epochs = 20,
                .least_ranks = 2,
                .most_ranks = 2,
                .priority = 0.1}};
  file.folders = {"a/exact/seed-1", "b/exact/seed-1"};
  file.hosts = {{.name = "x", .slots = 2, .kind = 0}, {.name = "y", .slots = 2, .kind = 1}};
  file.hosts[1].is_lost = true;
  file.schedule.segments = {{0, {{0, 1}, 1}, 0, 8.1, 0, 10},
                            {0, {{1}, 2}, 10, 32, 10, 30},
                            {1, {{0}, 2}, 8.1, 28.5, 0, 20}};
  file.schedule.completion_s = {32, 28.5 - 7.125};
  file.schedule.mean_completion_s = 1.0 / 3;
  file.schedule.makespan_s = 32;
  file.first_come_mean_s = 40.1;
  file.bound_s = 20;
  return file;
}

class ScheduleFileTest : public ::testing::Test {
 protected:
  ScheduleFile written(const Json& json) {
    write_json(path(), json);
    return read_schedule(path());
  }
  std::string refusal(const std::function<void(Json&)>& change) {
    Json json = to_json(example());
    change(json);
    const Error error = thrown_error([&] { written(json); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_THAT(error.what(), HasSubstr("schedule.json: "));
    return error.what();
  }
  std::filesystem::path path() const { return folder_.path() / "schedule.json"; }

  TempDir folder_;
};

TEST_F(ScheduleFileTest, ComesBackToTheLastBit) {
  ScheduleFile file = example();
  const ScheduleFile read = written(to_json(file));
  EXPECT_EQ(to_json(read), to_json(file));
  EXPECT_EQ(read.jobs[1].priority, 0.1);
  EXPECT_EQ(read.jobs[1].arrival_s, 7.125);
  EXPECT_EQ(read.hosts[1].name, "y");
  EXPECT_TRUE(read.hosts[1].is_lost);
  EXPECT_FALSE(read.hosts[0].is_lost);
  EXPECT_FALSE(read.elastic);
  EXPECT_EQ(read.schedule.mean_completion_s, 1.0 / 3);
  ASSERT_EQ(read.schedule.segments.size(), 3U);
  EXPECT_EQ(read.schedule.segments[1].placement, (JobPlacement{{1}, 2}));
  EXPECT_EQ(read.schedule.segments[2].from_s, 8.1);
  EXPECT_EQ(read.schedule.segments[2].job, 1);
  EXPECT_EQ(read.schedule.segments[1].first_epoch, 10);
  EXPECT_FALSE(read.done.has_value());
}

TEST_F(ScheduleFileTest, HasWhatWasDoneSoFar) {
  ScheduleFile file = example();
  file.done = file.schedule;
  file.done->segments.pop_back();
  file.done->completion_s[1] = kNever;
  file.done->mean_completion_s = kNever;
  const ScheduleFile read = written(to_json(file));
  ASSERT_TRUE(read.done.has_value());
  EXPECT_EQ(read.done->segments.size(), 2U);
  EXPECT_EQ(read.done->completion_s[1], kNever);
  EXPECT_EQ(read.done->completion_s[0], 32);
  EXPECT_EQ(read.done->mean_completion_s, kNever);
  EXPECT_TRUE(to_json(file).at("done").at("mean_completion_s").is_null());
}

TEST_F(ScheduleFileTest, NamesWhatIsWrong) {
  const auto at = [](const char* list, std::size_t i, const char* field, const Json& value) {
    return [=](Json& json) {
      (std::string_view(list) == "segments" ? json["planned"] : json)[list][i][field] = value;
    };
  };
  EXPECT_THAT(refusal([](Json& json) { json["format"] = 2; }), HasSubstr("'format' is 2; allowed"));
  EXPECT_THAT(refusal([](Json& json) { json.erase("hosts"); }), HasSubstr("'hosts' is missing"));
  EXPECT_THAT(refusal([](Json& json) { json["colour"] = 1; }), HasSubstr("unknown field 'colour'"));
  EXPECT_THAT(refusal([](Json& json) { json["elastic"] = "no"; }),
              HasSubstr("'elastic' is \"no\"; allowed are true and false"));
  EXPECT_THAT(refusal(at("hosts", 1, "name", "x")), HasSubstr("hosts[1]: 'name' is \"x\""));
  EXPECT_THAT(refusal(at("hosts", 0, "slots", 0)), HasSubstr("hosts[0]: 'slots' is 0; allowed"));
  EXPECT_THAT(refusal(at("jobs", 1, "most_ranks", 1)),
              HasSubstr("jobs[1]: 'most_ranks' is 1; allowed are whole numbers from 2"));
  EXPECT_THAT(refusal(at("jobs", 0, "priority", -1)), HasSubstr("jobs[0]: 'priority' is -1"));
  EXPECT_THAT(refusal(at("segments", 0, "job", 2)),
              HasSubstr("planned: segments[0]: 'job' is 2; allowed are whole numbers from 0 to 1"));
  EXPECT_THAT(refusal(at("segments", 2, "hosts", Json::array({"z"}))),
              HasSubstr("segments[2]: 'hosts' is \"z\""));
  EXPECT_THAT(refusal(at("segments", 2, "ranks_per_host", 3)),
              HasSubstr("'ranks_per_host' is 3; allowed are whole numbers from 1 to 2"));
  EXPECT_THAT(refusal(at("segments", 1, "to_s", 9)),
              HasSubstr("'to_s' is 9; allowed are numbers from 10"));
  EXPECT_THAT(refusal(at("segments", 1, "from_s", nullptr)), HasSubstr("'from_s' is null"));
  EXPECT_THAT(refusal([](Json& json) { json["planned"]["completion_s"].push_back(3); }),
              HasSubstr("allowed are lists of 2, a number for each job"));
  std::ofstream(path()) << "{";
  EXPECT_THAT(thrown_error([&] { read_schedule(path()); }).what(), HasSubstr("not valid JSON"));
  EXPECT_EQ(thrown_error([&] { read_schedule(folder_.path() / "none.json"); }).kind(),
            ErrorKind::kInput);
}

TEST(ScheduleSlots, AreThoseThatAreFree) {
  const ScheduleFile file = example();
  std::vector<std::vector<int>> bars;
  for (const SlotBar& bar : slot_bars(file.schedule, file.hosts)) {
    bars.push_back({static_cast<int>(bar.segment), bar.host, bar.slot});
  }
  using Bar = std::vector<int>;
  EXPECT_THAT(bars, ElementsAre(Bar{0, 0, 0}, Bar{0, 1, 0}, Bar{2, 0, 0}, Bar{2, 0, 1},
                                Bar{1, 1, 0}, Bar{1, 1, 1}));
}

TEST(ScheduleSlots, OfThingsThatReallyOverlapAreNotLost) {
  ScheduleFile file = example();
  file.schedule.segments = {{0, {{0}, 2}, 0, 10, 0, 1}, {1, {{0}, 1}, 9, 12, 0, 1}};
  const std::vector<SlotBar> bars = slot_bars(file.schedule, file.hosts);
  ASSERT_EQ(bars.size(), 3U);
  EXPECT_LT(bars[2].slot, 2);
}

// A bar for each rank and second of a job, and no two at one time in one row.
TEST(ScheduleTrace, HasARowForEachSlot) {
  const ScheduleFile file = example();
  const Json trace = schedule_trace(file);
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> rows;
  double rank_us = 0;
  std::set<std::string> names;
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "M") {
      names.insert(event.at("args").at("name").get<std::string>());
      continue;
    }
    const double from = event.at("ts").get<double>();
    const double duration = event.at("dur").get<double>();
    rank_us += duration;
    rows[{event.at("pid").get<int>(), event.at("tid").get<int>()}].emplace_back(from,
                                                                                from + duration);
  }
  EXPECT_THAT(names, ElementsAre("slot 0", "slot 1", "x", "y"));
  EXPECT_NEAR(rank_us, 1e6 * (2 * 8.1 + 2 * 22 + 2 * 20.4), 1);
  for (auto& [row, bars] : rows) {
    std::sort(bars.begin(), bars.end());
    for (std::size_t i = 1; i < bars.size(); ++i) EXPECT_LE(bars[i - 1].second, bars[i].first + 1);
  }
}

TEST(ScheduleTable, TellsRanksOverTime) {
  ScheduleFile file = example();
  const std::string jobs = jobs_table(file);
  EXPECT_THAT(jobs, HasSubstr("2 x 1, from 10.0 s 1 x 2"));
  EXPECT_THAT(jobs, HasSubstr("b, exact, seed 1        7.1      8.1   28.5          21.4"));
  file.schedule.mean_completion_s = 30;
  EXPECT_THAT(
      schedule_summary(file),
      HasSubstr("mean completion 30.0 s: 25.2 % below first-come (40.1 s), 50.0 % above the "
                "lower bound (20.0 s); the last job ends after 32.0 s"));
}

}  // namespace
}  // namespace atl
