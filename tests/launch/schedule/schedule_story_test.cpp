// Tests of the journal of a schedule that is run for real, of requests, and of the words that start
// a job.
#include "launch/schedule/schedule_story.hpp"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <array>
#include <cmath>
#include <csignal>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/files.hpp"
#include "launch/schedule/job_launch.hpp"
#include "launch/schedule/schedule_requests.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Phase = StoryJob::Phase;

ListedJob small_job(std::int64_t seed) {
  ListedJob job;
  job.group = "small ones";
  job.mode = "exact";
  job.seed = seed;
  job.dataset = "data/set";
  job.options = {{"hidden", "16"}, {"tf32", std::nullopt}};
  job.needs = {.arrival_s = 1.5, .least_ranks = 2, .most_ranks = 3, .priority = 2};
  return job;
}

// A journal of two hosts and two jobs of ten epochs.
void begin(ScheduleJournal& journal) {
  const auto host = [](const char* name) {
    return Json{{"name", name}, {"slots", 2}, {"kind", 0}};
  };
  journal.tell("begun", {{"hosts", {host("a"), host("b")}}});
  Json jobs = Json::array();
  for (const int seed : {1, 2}) {
    jobs.push_back(to_json(small_job(seed)));
    jobs.back()["epochs"] = 10;
  }
  journal.tell("jobs", {{"jobs", jobs}, {"again", Json::array()}});
}
void start(ScheduleJournal& journal, int job, const std::vector<int>& hosts, int epoch) {
  journal.tell("started",
               {{"job", job}, {"hosts", hosts}, {"ranks_per_host", 2}, {"epoch", epoch}});
}
void end_job(ScheduleJournal& journal, int job, const char* how, int epoch) {
  journal.tell("ended", {{"job", job}, {"epoch", epoch}, {"how", how}, {"why", "it rained"}});
}

TEST(ScheduleStory, SaysTheSameToWhoeverComesLater) {
  const TempDir dir;
  {
    ScheduleJournal journal(dir.path());
    begin(journal);
    start(journal, 0, {0}, 0);
    start(journal, 1, {1}, 0);
    journal.tell("asked", {{"job", 1}});
    journal.tell("cancel", {{"job", 1}, {"request", "7.json"}});
    journal.tell("lost", {{"host", 0}});
    end_job(journal, 0, "lost", 4);
    end_job(journal, 1, "cancelled", 3);
    start(journal, 0, {0, 1}, 4);
    journal.tell("refused", {{"request", "8.json"}, {"why", "no such job"}});
  }
  const ScheduleStory story = read_story(dir.path());
  ASSERT_EQ(story.jobs.size(), 2U);
  EXPECT_TRUE(story.hosts[0].is_lost);
  EXPECT_FALSE(story.hosts[1].is_lost);
  EXPECT_EQ(story.jobs[0].phase, Phase::kRunning);
  EXPECT_EQ(story.jobs[1].phase, Phase::kCancelled);
  EXPECT_FALSE(story.jobs[1].asked_to_end);
  const std::vector<RealSegment>& segments = story.jobs[0].segments;
  ASSERT_EQ(segments.size(), 2U);
  EXPECT_EQ(segments[0].last_epoch, 4);
  EXPECT_TRUE(segments[0].to_s.has_value());
  EXPECT_EQ(segments[1].placement, (JobPlacement{{0, 1}, 2}));
  EXPECT_FALSE(segments[1].to_s.has_value());
  EXPECT_EQ(story.requests.at("7.json"), "");
  EXPECT_EQ(story.requests.at("8.json"), "no such job");
  EXPECT_FALSE(story.has_finished);
  EXPECT_EQ(story.job_named("small ones, exact, seed 2"), 1);
  EXPECT_EQ(story.job_named("small-ones/exact/seed-1/"), 0);
  EXPECT_EQ(story.job_named("small-ones"), -1);
  const ListedJob& job = story.jobs[1].job;
  EXPECT_EQ(job.identity(), small_job(2).identity());
  EXPECT_EQ(job.needs.most_ranks, 3);
  EXPECT_EQ(story.jobs[1].arrival_s, 1.5);
}

TEST(ScheduleStory, KilledStartsCountUntilAnEpochIsDone) {
  const TempDir dir;
  ScheduleJournal journal(dir.path());
  begin(journal);
  const auto idle = [&] { return journal.story().jobs[0].idle_starts; };
  for (const int wanted : {1, 2}) {
    start(journal, 0, {0}, 0);
    end_job(journal, 0, "killed", 0);
    EXPECT_EQ(idle(), wanted);
  }
  start(journal, 0, {0}, 0);
  end_job(journal, 0, "killed", 1);
  EXPECT_EQ(idle(), 0);
  start(journal, 0, {0}, 1);
  end_job(journal, 0, "moved", 1);
  EXPECT_EQ(idle(), 0);
  end_job(journal, 1, "failed", 0);
  EXPECT_EQ(journal.story().jobs[1].reason, "it rained");
  journal.tell("jobs", {{"jobs", Json::array()}, {"again", {1}}});
  EXPECT_EQ(journal.story().jobs[1].phase, Phase::kWaiting);
  EXPECT_EQ(journal.story().jobs[1].reason, "");
}

TEST(ScheduleJournal, GoesOnBehindALineThatIsCutOff) {
  const TempDir dir;
  double before = 0;
  {
    ScheduleJournal journal(dir.path());
    begin(journal);
    before = journal.story().now_s;
  }
  std::ofstream(schedule_journal_file(dir.path()), std::ios::app) << "{\"clock_ms\": 12, \"at";
  EXPECT_EQ(read_story(dir.path()).jobs.size(), 2U);
  ScheduleJournal journal(dir.path());
  EXPECT_GE(journal.now_s(), before);
  start(journal, 1, {1}, 0);
  const ScheduleStory story = read_story(dir.path());
  EXPECT_EQ(story.jobs[1].phase, Phase::kRunning);
  EXPECT_GE(story.now_s, before);
  EXPECT_LT(story.now_s, before + 100);
}

TEST(ScheduleJournal, NamesWhatIsDamaged) {
  const TempDir dir;
  EXPECT_THAT(thrown_error([&] { read_story(dir.path()); }).what(),
              HasSubstr("no schedule was run there"));
  {
    ScheduleJournal journal(dir.path());
    begin(journal);
  }
  const auto damaged = [&](const std::string& line) {
    const std::string whole = read_text(schedule_journal_file(dir.path()));
    std::ofstream(schedule_journal_file(dir.path()), std::ios::app) << line << "\n";
    const Error error = thrown_error([&] { read_story(dir.path()); });
    std::ofstream(schedule_journal_file(dir.path())) << whole;
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return std::string(error.what());
  };
  EXPECT_THAT(damaged("no json"), HasSubstr("journal.jsonl:3"));
  const std::string head = R"({"clock_ms": 1, "at_s": 9, "event": )";
  EXPECT_THAT(damaged(head + R"("asked", "job": 2})"), HasSubstr("'job' is 2; allowed are 0 to 1"));
  EXPECT_THAT(damaged(head + R"("lost", "host": -1})"), HasSubstr("'host' is -1"));
  EXPECT_THAT(
      damaged(head + R"("started", "job": 1, "epoch": 0, "ranks_per_host": 1, "hosts": [5]})"),
      HasSubstr("journal.jsonl:3: field 'hosts' is [5]"));
  EXPECT_THAT(
      damaged(head + R"("started", "job": 1, "epoch": 0, "ranks_per_host": -7, "hosts": [0]})"),
      HasSubstr("journal.jsonl:3: field 'ranks_per_host' is -7"));
}

TEST(ScheduleJournal, LeavesNoHalfLineOnAFullDisk) {
  const TempDir dir;
  ScheduleJournal journal(dir.path());
  begin(journal);
  const std::string before = read_text(schedule_journal_file(dir.path()));
  rlimit usual{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &usual), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit little{before.size() + 10, usual.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &little), 0);
  const Error error = thrown_error([&] { start(journal, 1, {1}, 0); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &usual), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(error.what(), HasSubstr("journal.jsonl: can't be written: No space left"));
  EXPECT_EQ(read_text(schedule_journal_file(dir.path())), before);
  EXPECT_EQ(journal.story().jobs[1].phase, Phase::kWaiting);
  start(journal, 0, {1}, 0);
  EXPECT_EQ(read_story(dir.path()).jobs[0].phase, Phase::kRunning);
}

TEST(ScheduleStory, NeedsMayChange) {
  const TempDir dir;
  ScheduleJournal journal(dir.path());
  begin(journal);
  JobNeeds needs{.arrival_s = 40, .least_ranks = 1, .most_ranks = std::nullopt, .priority = 9};
  Json line = to_json(needs);
  line["job"] = 1;
  journal.tell("needs", line);
  const StoryJob job = read_story(dir.path()).jobs[1];
  EXPECT_EQ(job.arrival_s, 40);
  EXPECT_EQ(to_json(job.job.needs), to_json(needs));
  EXPECT_EQ(job.job.identity(), small_job(2).identity());
}

// By hand from the times that the journal has.
TEST(DoneSchedule, HasWhatWasDone) {
  const TempDir dir;
  ScheduleStory story;
  const auto tell = [&](double at_s, Json line) {
    line.update({{"clock_ms", 0}, {"at_s", at_s}});
    story.take(line, "here");
  };
  Json jobs = Json::array();
  for (const int seed : {1, 2, 3}) {
    jobs.push_back(to_json(small_job(seed)));
    jobs.back()["epochs"] = 10;
  }
  const Json host = {{"name", "a"}, {"slots", 4}, {"kind", 0}};
  tell(0, {{"event", "begun"}, {"hosts", Json::array({host})}});
  tell(0, {{"event", "jobs"}, {"jobs", jobs}});
  const auto started = [](int job, int epoch) {
    return Json{{"event", "started"},
                {"job", job},
                {"hosts", {0}},
                {"ranks_per_host", 2},
                {"epoch", epoch}};
  };
  const auto ended = [](int job, const char* how, int epoch) {
    return Json{{"event", "ended"}, {"job", job}, {"how", how}, {"epoch", epoch}, {"why", ""}};
  };
  tell(2, started(0, 0));
  tell(3, started(1, 0));
  tell(5, ended(0, "moved", 6));
  tell(6.5, started(0, 6));
  tell(8.5, ended(0, "done", 10));
  tell(9.5, ended(1, "done", 9));
  tell(10, started(2, 0));
  tell(12, {{"event", "clock"}});
  const JobSchedule done = done_schedule(story);
  ASSERT_EQ(done.segments.size(), 4U);
  const std::vector<std::array<double, 5>> wanted = {
      {0, 2, 5, 0, 6}, {1, 3, 9.5, 0, 9}, {0, 6.5, 8.5, 6, 10}, {2, 10, 12, 0, 0}};
  for (std::size_t s = 0; s < 4; ++s) {
    const JobSegment& segment = done.segments[s];
    EXPECT_THAT((std::array<double, 5>{static_cast<double>(segment.job), segment.from_s,
                                       segment.to_s, segment.first_epoch, segment.last_epoch}),
                ::testing::ElementsAreArray(wanted[s]));
  }
  // All arrive after 1.5 s.
  EXPECT_EQ(done.completion_s[0], 7);
  EXPECT_EQ(done.completion_s[1], 8);
  EXPECT_TRUE(std::isinf(done.completion_s[2]));
  EXPECT_EQ(done.makespan_s, 12);
}

TEST(DoneSchedule, HasNoJobThatEndsBeforeItArrives) {
  const TempDir dir;
  ScheduleJournal journal(dir.path());
  begin(journal);  // they arrive after 1.5 s
  end_job(journal, 0, "done", 10);
  EXPECT_EQ(done_schedule(journal.story()).completion_s[0], 0);
}

TEST(EpochsDone, AreThoseOfWholeLines) {
  const TempDir dir;
  const auto metrics = dir.path() / "metrics.jsonl";
  EXPECT_EQ(epochs_done(dir.path()), 0);
  std::ofstream(metrics) << "{\"epoch\": 1}\n{\"epoch\": 2, \"lo";
  EXPECT_EQ(epochs_done(dir.path()), 1);
  std::ofstream(metrics) << "{\"epo";
  EXPECT_EQ(epochs_done(dir.path()), 0);
  {
    std::ofstream file(metrics);
    for (int epoch = 1; epoch <= 30000; ++epoch) {
      file << "{\"epoch\": " << epoch << ", \"padding\": \"" << std::string(80, '.') << "\"}\n";
    }
  }
  EXPECT_EQ(epochs_done(dir.path()), 30000);
}

TEST(ScheduleRequests, AreTakenInTheirOrder) {
  const TempDir dir;
  EXPECT_TRUE(waiting_requests(dir.path()).empty());
  const std::string first =
      leave_request(dir.path(), {.id = "", .jobs = {small_job(4)}, .cancelled = {}});
  const std::string second =
      leave_request(dir.path(), {.id = "", .jobs = {}, .cancelled = "a/b/seed-1"});
  const auto folder = schedule_state_folder(dir.path()) / "requests";
  std::ofstream(folder / "0.json") << "[]";
  const std::vector<ScheduleRequest> found = waiting_requests(dir.path());
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].id, first);
  ASSERT_EQ(found[0].jobs.size(), 1U);
  EXPECT_EQ(found[0].jobs[0].identity(), small_job(4).identity());
  EXPECT_EQ(found[1].id, second);
  EXPECT_EQ(found[1].cancelled, "a/b/seed-1");
  EXPECT_TRUE(is_there(folder / "0.json.damaged"));
  drop_request(dir.path(), first);
  EXPECT_FALSE(is_waiting(dir.path(), first));
  EXPECT_TRUE(is_waiting(dir.path(), second));
}

TEST(LaunchWords, StartAndGoOn) {
  const LaunchSetting setting{.out = "out",
                              .program = "/bin/atoll",
                              .rsh = "sh agent",
                              .mpirun = "",
                              .address = "",
                              .restarts = 3};
  const std::vector<std::string> start =
      launch_words(setting, small_job(1), 5, {{"a", "b"}, 2}, /*goes_on=*/false);
  EXPECT_THAT(start, ElementsAre("/bin/atoll", "launch", "--hosts", "a,b", "--ranks-per-host", "2",
                                 "--min-ranks", "4", "--restarts", "3", "--events",
                                 "out/.schedule/job-5.jsonl", "--rsh", "sh agent", "--", "train",
                                 "data/set", "--hidden", "16", "--tf32", "--seed", "1", "--run-dir",
                                 "out/small-ones/exact/seed-1", "--overwrite"));
  std::vector<std::string> goes_on = start;
  goes_on.back() = "--resume";
  goes_on.emplace_back("--take-over");
  EXPECT_EQ(launch_words(setting, small_job(1), 5, {{"a", "b"}, 2}, /*goes_on=*/true), goes_on);
}

}  // namespace
}  // namespace atl
