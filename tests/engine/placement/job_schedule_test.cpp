// Schedules that were worked out by hand.
#include "engine/placement/job_schedule.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "engine/placement/job_speeds.hpp"
#include "engine/placement/schedule_progress.hpp"
#include "tests/engine/placement/made_jobs.hpp"

namespace atl {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

auto near(double seconds) { return DoubleNear(seconds, 1e-9 * seconds); }

struct Case {
  std::vector<SchedulableJob> jobs;
  std::vector<ScheduledHost> hosts;
  MadeSpeeds speeds;
  double start_s = 1;
  std::vector<HostEvent> events = {};

  JobSchedule simulate(const std::string& name, bool elastic = true) {
    const std::unique_ptr<JobPolicy> policy = make_job_policy(name, {.elastic = elastic});
    return simulate_schedule(setting(), *policy);
  }
  ScheduleSetting setting() {
    for (SchedulableJob& job : jobs) job.start_s = start_s;
    return {jobs, hosts, speeds, {}, 0, events};
  }
};

TEST(JobScheduleTest, first_come_takes_turns_on_all_ranks) {
  Case made{{{"a", 0, 10, 1, 2}, {"b", 1, 5, 1, 2}},
            made_hosts(2, 1),
            MadeSpeeds(std::vector<std::vector<double>>{{2, 1}, {2, 1}})};
  const JobSchedule schedule = made.simulate("fifo");
  EXPECT_THAT(schedule.completion_s, ElementsAre(near(11), near(16)));
  EXPECT_THAT(schedule.mean_completion_s, near(13.5));
  EXPECT_THAT(schedule.makespan_s, near(17));
  ASSERT_EQ(schedule.segments.size(), 2);
  const JobSegment& second = schedule.segments[1];
  EXPECT_EQ(second.job, 1);
  EXPECT_EQ(second.placement, (JobPlacement{{0, 1}, 1}));
  EXPECT_THAT(second.from_s, near(11));
  EXPECT_THAT(second.to_s, near(17));
  EXPECT_EQ(second.first_epoch, 0);
  EXPECT_EQ(second.last_epoch, 5);
}

TEST(JobScheduleTest, first_come_lets_nobody_pass) {
  // c would fit beside a, but b is in front of it and wants both slots.
  Case made{{{"a", 0, 10, 1, 1}, {"b", 1, 4, 2, 2}, {"c", 2, 3, 1, 1}},
            made_hosts(1, 2),
            MadeSpeeds({{1}, {2, 1}, {1}}),
            0};
  EXPECT_THAT(made.simulate("fifo").completion_s, ElementsAre(near(10), near(13), near(15)));
  // By priority first.
  made.jobs[2].priority = 2;
  EXPECT_THAT(made.simulate("fifo").completion_s, ElementsAre(near(10), near(13), near(3)));
}

TEST(JobScheduleTest, a_short_job_stops_a_long_one_after_its_epoch) {
  Case made{{{"long", 0, 100, 1, 1}, {"short", 10.5, 5, 1, 1}},
            made_hosts(1, 1),
            MadeSpeeds(std::vector<std::vector<double>>{{1}, {1}})};
  const JobSchedule schedule = made.simulate("srpt");
  // The tenth epoch ends at 11; then a start and five epochs; then a start and ninety.
  EXPECT_THAT(schedule.completion_s, ElementsAre(near(108), near(6.5)));
  ASSERT_EQ(schedule.segments.size(), 3);
  EXPECT_THAT(schedule.segments[0].to_s, near(11));
  EXPECT_EQ(schedule.segments[0].last_epoch, 10);
  EXPECT_EQ(schedule.segments[2].first_epoch, 10);
  EXPECT_EQ(schedule.segments[2].last_epoch, 100);
  EXPECT_THAT(made.simulate("srpt", false).completion_s, ElementsAre(near(101), near(96.5)));
}

TEST(JobScheduleTest, a_stop_that_does_not_pay_is_left_out) {
  // To go first, b would save 1.5 s and cost a 1 s for its epoch and start: 90 s each.
  Case made{{{"a", 0, 100, 1, 1}, {"b", 10.5, 89, 1, 1}},
            made_hosts(1, 1),
            MadeSpeeds(std::vector<std::vector<double>>{{1}, {1}})};
  EXPECT_THAT(made.simulate("srpt").completion_s, ElementsAre(near(101), near(180.5)));
  // With much more weight it goes first all the same.
  made.jobs[1].priority = 3;
  EXPECT_THAT(made.simulate("srpt").completion_s, ElementsAre(near(192), near(90.5)));
}

TEST(JobScheduleTest, ranks_go_where_time_falls_most) {
  // Both get one rank; the second one saves a 40 s and b 15 s, so a gets it first, then b.
  Case made{{{"a", 0, 10, 1, 4}, {"b", 0, 10, 1, 4}},
            made_hosts(1, 4),
            MadeSpeeds({{8, 4, 3, 2}, {4, 2.5, 2.2, 2}})};
  const JobSchedule fixed = made.simulate("marginal", false);
  EXPECT_THAT(fixed.completion_s, ElementsAre(near(41), near(26)));
  EXPECT_EQ(fixed.segments.size(), 2);
  // At 26, a is in its seventh epoch, which ends at 29: a start and three epochs of 2 s follow.
  EXPECT_THAT(made.simulate("marginal").completion_s, ElementsAre(near(36), near(26)));
  // With starts of 7 s it would end at 48 in place of 47.
  made.start_s = 7;
  EXPECT_THAT(made.simulate("marginal").completion_s, ElementsAre(near(47), near(32)));
}

TEST(JobScheduleTest, each_job_has_a_start_of_its_own) {
  std::vector<SchedulableJob> jobs = {{"a", 0, 10, 1, 1}, {"b", 0, 10, 1, 1}, {"c", 0, 10, 1, 1}};
  const double starts_s[] = {0, 3, 7};
  for (int j = 0; j < 3; ++j) jobs[j].start_s = starts_s[j];
  const std::vector<ScheduledHost> hosts = made_hosts(1, 1);
  MadeSpeeds speeds(std::vector<std::vector<double>>(3, {1}));
  const std::unique_ptr<JobPolicy> policy = make_job_policy("srpt", {});
  const JobSchedule schedule = simulate_schedule({jobs, hosts, speeds}, *policy);
  EXPECT_THAT(schedule.completion_s, ElementsAre(near(10), near(23), near(40)));
}

TEST(JobScheduleTest, cards_are_shared) {
  // Each fills 0.8 of both cards when alone, and goes at 0.5 / 0.8 while the other one runs.
  const auto seconds = [](int, const JobPlacement& placement) {
    return placement == JobPlacement{{0, 1}, 1} ? 1.0 : kCantTrain;
  };
  Case made{{{"a", 0, 10, 2, 2}, {"b", 0, 5, 2, 2}},
            made_hosts(2, 2),
            MadeSpeeds(seconds, [](int, const JobPlacement&) { return 0.8; }),
            0};
  EXPECT_THAT(made.simulate("fifo").completion_s, ElementsAre(near(13), near(8)));
  // A job that starts does not fill its cards yet: b is at half of its epochs when a begins.
  made.start_s = 2.5;
  made.jobs[0].arrival_s = 2.5;
  made.jobs[1].epochs = 8;
  EXPECT_THAT(made.simulate("fifo").completion_s, ElementsAre(near(2.5 + 8.8 + 4.5), near(13.8)));
}

TEST(JobScheduleTest, rates_are_fair) {
  struct Use {
    std::vector<int> hosts;
    std::vector<double> shares;
  };
  const auto rates = [](const std::vector<Use>& uses) {
    std::vector<CardUse> cards;
    for (const Use& use : uses) cards.push_back({use.hosts, use.shares});
    return fair_rates(cards, 2);
  };
  EXPECT_THAT(rates({{{0}, {0.3}}, {{0}, {0.7}}}), ElementsAre(1, 1));
  // The one that wants least gets all of it; the others share what is left.
  EXPECT_THAT(rates({{{0}, {0.2}}, {{0}, {1}}}), ElementsAre(near(1), near(0.8)));
  EXPECT_THAT(rates({{{0}, {0.5}}, {{0}, {0.6}}, {{0}, {0.1}}}),
              ElementsAre(near(0.9), near(0.75), near(1)));
  // Host 0 is full at 0.5 each; what the first one leaves of host 1 goes to the third.
  EXPECT_THAT(rates({{{0, 1}, {0.6, 0.3}}, {{0}, {0.6}}, {{1}, {0.9}}}),
              ElementsAre(near(0.5 / 0.6), near(0.5 / 0.6), near(0.75 / 0.9)));
  EXPECT_THAT(rates({{{0, 1}, {0, 0}}, {{1}, {1}}, {{1}, {1}}}),
              ElementsAre(1, near(0.5), near(0.5)));
}

TEST(JobScheduleTest, a_lost_host_takes_an_epoch_with_it) {
  Case made{{{"a", 0, 10, 1, 2}},
            made_hosts(2, 1),
            MadeSpeeds(std::vector<std::vector<double>>{{2, 1}}),
            1,
            {{5.5, 1, true}, {8, 1, false}}};
  // Four epochs and a half are done; the half is lost, and the start is due again.
  const JobSchedule fixed = made.simulate("fifo");
  EXPECT_THAT(fixed.completion_s, ElementsAre(near(18.5)));
  ASSERT_EQ(fixed.segments.size(), 2);
  EXPECT_EQ(fixed.segments[0].last_epoch, 4);
  EXPECT_EQ(fixed.segments[1].placement, (JobPlacement{{0}, 1}));
  EXPECT_THAT(made.simulate("marginal", false).completion_s, ElementsAre(near(18.5)));
  // When it is back the epoch ends at 8.5, and five are left.
  for (const char* policy : {"srpt", "marginal"}) {
    EXPECT_THAT(made.simulate(policy).completion_s, ElementsAre(near(14.5))) << policy;
  }
  // Search decides anew when the host is lost and when it is back.
  EXPECT_THAT(made.simulate("search").completion_s, ElementsAre(near(14.5)));
}

TEST(JobScheduleTest, jobs_that_cannot_train_are_named) {
  Case made{{{"small", 0, 10, 1, 1}, {"wide", 0, 10, 3, 8}},
            made_hosts(2, 1),
            MadeSpeeds({{1, 1, 1}, {1, 1, 1}})};
  const auto message = [&](const std::string& policy) {
    try {
      made.simulate(policy);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kOption);
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_THAT(message("fifo"), HasSubstr("job wide: 3 to 8 ranks"));
  made.jobs[1].least_ranks = 2;
  made.events = {{0.5, 0, true}};
  for (const std::string& policy : job_policies()) {
    EXPECT_THAT(message(policy), HasSubstr("job wide: 2 to 8 ranks")) << policy;
    EXPECT_THAT(message(policy), HasSubstr("1 hosts that are left")) << policy;
  }
  EXPECT_THAT(message("lifo"), HasSubstr("fifo, srpt, marginal, search"));
}

TEST(JobScheduleTest, jobs_go_to_the_hosts_with_fewest_free_slots) {
  // b fits beside a; c needs the other host whole.
  Case made{{{"a", 0, 4, 1, 1}, {"b", 1, 4, 1, 1}, {"c", 2, 4, 2, 2}},
            made_hosts(2, 2),
            MadeSpeeds([](int, const JobPlacement& placement) {
              return placement.hosts.size() == 1 ? 1 : kCantTrain;
            }),
            0};
  const JobSchedule schedule = made.simulate("fifo");
  EXPECT_EQ(schedule.segments[1].placement, (JobPlacement{{0}, 1}));
  EXPECT_EQ(schedule.segments[2].placement, (JobPlacement{{1}, 2}));
}

TEST(JobScheduleTest, a_schedule_goes_on_from_where_it_is) {
  Case made{{{"a", 0, 10, 1, 1}, {"b", 1, 5, 1, 1}, {"c", 2, 5, 1, 1}},
            made_hosts(1, 2),
            MadeSpeeds({{2}, {1}, {1}})};
  std::vector<JobState> states(3);
  states[0] = {JobState::Phase::kEnded};
  states[1] = {JobState::Phase::kRunning, 2.5, JobPlacement{{0}, 1}};
  states[2] = {JobState::Phase::kRunning, 5, JobPlacement{{0}, 1}, 0.5};
  const std::unique_ptr<JobPolicy> policy = make_job_policy("fifo", {});
  ScheduleSetting setting = made.setting();
  setting.states = states;
  setting.now_s = 20;
  const JobSchedule schedule = simulate_schedule(setting, *policy);
  EXPECT_THAT(schedule.completion_s, ElementsAre(0, near(21.5), near(23.5)));
  EXPECT_EQ(schedule.segments[0].first_epoch, 2.5);
}

TEST(JobScheduleTest, bounds) {
  Case made{{{"a", 0, 10, 1, 1}, {"b", 1, 2, 1, 1}},
            made_hosts(1, 1),
            MadeSpeeds(std::vector<std::vector<double>>{{1}, {1}}),
            0};
  // On one slot b goes first when it comes: it ends at 3 and a at 12.
  EXPECT_THAT(completion_bound_s(made.setting()), near(7));
  // By weight per work: a (0.2 a second) before b (0.1).
  made.jobs[0].priority = 2;
  made.jobs[1].priority = 0.2;
  EXPECT_THAT(completion_bound_s(made.setting()), near((2 * 10 + 0.2 * 11) / 2.2));
  // With ten slots neither is in the other's way.
  made.hosts = made_hosts(1, 10);
  made.start_s = 1;
  EXPECT_THAT(completion_bound_s(made.setting()), near((2 * 11 + 0.2 * 3) / 2.2));
}

TEST(JobScheduleTest, the_bound_has_long_jobs_alone) {
  // The long one takes 100 s on its rank; four of 10 s share two slots: 5, 10, 15 and 20 s.
  Case made{{{"long", 0, 100, 1, 1}},
            made_hosts(1, 2),
            MadeSpeeds(std::vector<std::vector<double>>(5, {1})),
            0};
  for (int k = 0; k < 4; ++k) made.jobs.push_back({"short", 0, 10, 1, 1});
  EXPECT_THAT(completion_bound_s(made.setting()), near((100 + 5 + 10 + 15 + 20) / 5.0));
}

TEST(ScheduleProgressTest, newcomers_start_when_slots_are_free) {
  const std::vector<SchedulableJob> jobs = {
      {"a", 0, 10, 1, 2}, {"b", 0, 10, 1, 1}, {"c", 0, 10, 1, 1}};
  ScheduleProgress progress(jobs, made_hosts(1, 3));
  const JobPlacement one{{0}, 1}, two{{0}, 2};
  for (const int job : {0, 1, 2}) progress.arrive(job);
  progress.follow({two, one, std::nullopt});
  EXPECT_THAT(progress.can_start(), ElementsAre(0, 1));
  progress.start(0);
  progress.start(1);
  EXPECT_THAT(progress.running(), ElementsAre(0, 1));
  EXPECT_THAT(progress.can_start(), ElementsAre());

  progress.follow({one, one, one});  // a gives a rank to c
  EXPECT_TRUE(progress.must_stop(0));
  EXPECT_FALSE(progress.must_stop(1));
  EXPECT_THAT(progress.can_start(), ElementsAre());
  progress.note(0, 7);
  progress.stop(0);
  EXPECT_FALSE(progress.must_stop(0));
  EXPECT_THAT(progress.can_start(), ElementsAre(0, 2));
  EXPECT_EQ(progress.state(0).epochs_left, 7);

  progress.start(2);
  progress.end(1);
  EXPECT_EQ(progress.targets()[1], std::nullopt);
  EXPECT_THAT(progress.can_start(), ElementsAre(0));
  EXPECT_EQ(progress.add({"d", 5, 20}), 3);
  EXPECT_EQ(progress.state(3).phase, JobState::Phase::kNotArrived);
  progress.set_lost(0, true);
  EXPECT_THAT(progress.can_start(), ElementsAre());
}

}  // namespace
}  // namespace atl
