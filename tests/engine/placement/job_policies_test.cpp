// Rules that every schedule keeps, whatever the jobs, and how good policies are at least.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "base/error.hpp"
#include "tests/engine/placement/made_jobs.hpp"
#include "tests/support/exhaustive_schedule.hpp"

namespace atl {
namespace {

// Ten significant digits: what two ways to add up may differ by.
constexpr double kAlike = 1e-9;

ScheduleSetting setting_of(const MadeList& list, JobSpeeds& speeds) {
  return {list.jobs, list.hosts, speeds};
}

JobSchedule simulate(const MadeList& list, const std::string& name,
                     const JobPolicyOptions& options) {
  MadeSpeeds speeds = list.speeds();
  const std::unique_ptr<JobPolicy> policy = make_job_policy(name, options);
  return simulate_schedule(setting_of(list, speeds), *policy);
}

void check_slots(const MadeList& list, const JobSchedule& schedule) {
  std::vector<double> times;
  for (const JobSegment& segment : schedule.segments) times.push_back(segment.from_s);
  for (const double time : times) {
    std::vector<int> taken(list.hosts.size(), 0);
    for (const JobSegment& segment : schedule.segments) {
      if (time < segment.from_s || time >= segment.to_s - kAlike) continue;
      for (const int h : segment.placement.hosts) taken[h] += segment.placement.ranks_per_host;
    }
    for (std::size_t h = 0; h < taken.size(); ++h) {
      EXPECT_LE(taken[h], list.hosts[h].slots) << "host " << h << " at " << time;
    }
  }
}

// A job's stretches follow one another and add up to its epochs.
void check_job(const MadeList& list, const JobSchedule& schedule, int job) {
  MadeSpeeds speeds = list.speeds();
  const SchedulableJob& asked = list.jobs[job];
  double time = asked.arrival_s, epochs = 0;
  for (const JobSegment& segment : schedule.segments) {
    if (segment.job != job) continue;
    EXPECT_GE(segment.from_s, time);
    EXPECT_EQ(segment.first_epoch, epochs);
    EXPECT_EQ(segment.last_epoch, std::round(segment.last_epoch));
    EXPECT_GE(segment.placement.ranks(), asked.least_ranks);
    EXPECT_LE(segment.placement.ranks(), asked.most_ranks);
    const double done = segment.last_epoch - segment.first_epoch;
    // A start may be cut short where its host is lost.
    const double alone_s =
        done == 0 ? 0 : list.jobs[job].start_s + done * speeds.epoch_s(job, segment.placement);
    EXPECT_GE(segment.to_s - segment.from_s, alone_s * (1 - kAlike));
    EXPECT_GT(segment.to_s, segment.from_s);
    time = segment.to_s;
    epochs = segment.last_epoch;
  }
  EXPECT_EQ(epochs, static_cast<double>(asked.epochs));
  EXPECT_NEAR(schedule.completion_s[job], time - asked.arrival_s, kAlike * time);
}

void check(const MadeList& list, const JobSchedule& schedule) {
  check_slots(list, schedule);
  double sum = 0, weights = 0;
  for (int job = 0; job < std::ssize(list.jobs); ++job) {
    SCOPED_TRACE(list.jobs[job].name);
    check_job(list, schedule, job);
    sum += list.jobs[job].priority * schedule.completion_s[job];
    weights += list.jobs[job].priority;
  }
  EXPECT_NEAR(schedule.mean_completion_s, sum / weights, kAlike * sum);
  EXPECT_TRUE(std::ranges::is_sorted(schedule.segments, {}, &JobSegment::from_s));
}

class RandomListsTest : public ::testing::TestWithParam<int> {
 protected:
  MadeList list() const {
    const int seed = GetParam();
    return MadeList(static_cast<std::uint64_t>(seed), 2 + seed % 11, 1 + seed % 4, 1 + seed % 3,
                    seed % 2 == 0);
  }
};
INSTANTIATE_TEST_SUITE_P(Seeds, RandomListsTest, ::testing::Range(0, 40));

TEST_P(RandomListsTest, policies_keep_the_rules) {
  const MadeList made = list();
  MadeSpeeds speeds = made.speeds();
  const double bound_s = completion_bound_s(setting_of(made, speeds));
  std::map<std::pair<std::string, bool>, double> means;
  for (const std::string& name : job_policies()) {
    for (const bool elastic : {false, true}) {
      SCOPED_TRACE(name + (elastic ? ", elastic" : ""));
      const JobPolicyOptions options{.elastic = elastic, .evaluations = 150};
      const JobSchedule schedule = simulate(made, name, options);
      check(made, schedule);
      if (!elastic) {
        EXPECT_EQ(schedule.segments.size(), made.jobs.size());
      }
      EXPECT_GE(schedule.mean_completion_s, bound_s * (1 - kAlike));
      means[{name, elastic}] = schedule.mean_completion_s;
    }
  }
  for (const auto& [key, mean_s] : means) {
    const auto& [name, elastic] = key;
    if (name == "search") continue;
    EXPECT_LE((means[{"search", true}]), mean_s * (1 + kAlike)) << name << elastic;
    if (!elastic) {
      EXPECT_LE((means[{"search", false}]), mean_s * (1 + kAlike)) << name;
    }
  }
}

TEST_P(RandomListsTest, search_without_foresight_keeps_the_rules) {
  const MadeList made = list();
  const JobPolicyOptions options{.evaluations = 60, .knows_arrivals = false};
  check(made, simulate(made, "search", options));
}

TEST_P(RandomListsTest, decisions_are_repeated_by_the_seed) {
  const MadeList made = list();
  for (const std::string& name : job_policies()) {
    const JobPolicyOptions options{.seed = 7, .evaluations = 100};
    const JobSchedule one = simulate(made, name, options), other = simulate(made, name, options);
    EXPECT_EQ(one.completion_s, other.completion_s) << name;
  }
}

TEST_P(RandomListsTest, first_come_starts_in_order) {
  const MadeList made = list();
  const JobSchedule schedule = simulate(made, "fifo", {});
  for (const JobSegment& earlier : schedule.segments) {
    for (const JobSegment& later : schedule.segments) {
      const SchedulableJob& a = made.jobs[earlier.job];
      const SchedulableJob& b = made.jobs[later.job];
      if (a.priority < b.priority || a.arrival_s >= b.arrival_s) continue;
      EXPECT_LE(earlier.from_s, later.from_s) << a.name << " before " << b.name;
    }
  }
}

TEST_P(RandomListsTest, hosts_that_come_and_go_only_delay) {
  const MadeList made = list();
  MadeSpeeds speeds = made.speeds();
  std::vector<HostEvent> events;
  RandomDraws draws(static_cast<std::uint64_t>(GetParam()));
  for (double time = 0; time < 300; time += draws.uniform(5, 60)) {
    const int host = draws.below(static_cast<int>(made.hosts.size()));
    events.push_back({time, host, true});
    events.push_back({time + draws.uniform(0, 4), host, false});
    time = events.back().at_s;
  }
  ScheduleSetting setting = {made.jobs, made.hosts, speeds, {}, 0, events};
  const double bound_s = completion_bound_s(setting);
  for (const std::string& name : job_policies()) {
    SCOPED_TRACE(name);
    const std::unique_ptr<JobPolicy> policy = make_job_policy(name, {.evaluations = 60});
    const JobSchedule schedule = simulate_schedule(setting, *policy);
    check(made, schedule);
    EXPECT_GE(schedule.mean_completion_s, bound_s * (1 - kAlike));
    for (const JobSegment& segment : schedule.segments) {
      for (std::size_t k = 0; k < events.size(); k += 2) {
        const bool uses = std::ranges::find(segment.placement.hosts, events[k].host) !=
                          segment.placement.hosts.end();
        const bool meets =
            segment.from_s < events[k + 1].at_s - kAlike && segment.to_s > events[k].at_s + kAlike;
        EXPECT_FALSE(uses && meets) << "on a lost host at " << events[k].at_s;
      }
    }
  }
}

// All schedules of jobs on hosts of one slot, tried one after another: at each arrival and each
// end, every way to deal hosts to jobs.
class BruteForce {
 public:
  BruteForce(const MadeList& list, JobSpeeds& speeds, bool elastic)
      : list_(list), speeds_(speeds), elastic_(elastic) {}

  double best_mean_s() {
    World world;
    for (int j = 0; j < std::ssize(list_.jobs); ++j) {
      world.jobs.push_back({static_cast<double>(list_.jobs[j].epochs)});
      weights_ += list_.jobs[j].priority;
      fastest_s_.push_back(kCantTrain);
      std::vector<int> hosts;
      for (int h = 0; h < std::ssize(list_.hosts); ++h) {
        hosts.push_back(h);
        if (is_allowed(j, hosts)) fastest_s_[j] = std::min(fastest_s_[j], epoch_s(j, hosts));
      }
    }
    pass(world);
    return best_ / weights_;
  }

 private:
  struct Job {
    double left = 0;
    double start_left = 0;
    std::vector<int> here = {};    // hosts on which it runs
    std::vector<int> target = {};  // hosts on which it should
    bool is_there = false;
    bool has_ended = false;
    double stop_at = 0;
  };
  struct World {
    double now = 0;
    double sum = 0;
    std::vector<Job> jobs;
  };

  double epoch_s(int job, const std::vector<int>& hosts) {
    return speeds_.epoch_s(job, {hosts, 1});
  }

  bool is_allowed(int job, const std::vector<int>& hosts) {
    const auto ranks = static_cast<int>(hosts.size());
    return ranks >= list_.jobs[job].least_ranks && ranks <= list_.jobs[job].most_ranks &&
           epoch_s(job, hosts) < kCantTrain;
  }

  // The least that it comes to: each job alone from now on.
  double least_sum(const World& world) const {
    double sum = world.sum;
    for (int j = 0; j < std::ssize(world.jobs); ++j) {
      const Job& job = world.jobs[j];
      if (job.has_ended) continue;
      const double from = std::max(world.now, list_.jobs[j].arrival_s);
      const double start_s = job.here.empty() ? list_.jobs[j].start_s : 0;
      sum += list_.jobs[j].priority *
             (from + start_s + job.left * fastest_s_[j] - list_.jobs[j].arrival_s);
    }
    return sum;
  }

  // A decision, and all that follows.
  void decide(const World& world) {
    // host h goes to job owner[h], or to nobody.
    const int jobs = static_cast<int>(world.jobs.size());
    std::vector<int> owner(list_.hosts.size(), -1);
    for (;;) {
      try_deal(world, owner);
      std::size_t h = 0;
      while (h < owner.size() && ++owner[h] == jobs) owner[h++] = -1;
      if (h == owner.size()) return;
    }
  }

  void try_deal(World world, const std::vector<int>& owner) {
    for (int j = 0; j < std::ssize(world.jobs); ++j) {
      Job& job = world.jobs[j];
      job.target.clear();
      for (int h = 0; h < std::ssize(owner); ++h) {
        if (owner[h] == j) job.target.push_back(h);
      }
      const bool is_open = job.is_there && !job.has_ended;
      if (!job.target.empty() && !(is_open && is_allowed(j, job.target))) return;
      if (!job.here.empty() && job.target != job.here && !elastic_) return;
      job.stop_at = 0;
      if (job.here.empty() || job.target == job.here) continue;
      job.stop_at = job.start_left > 0 ? job.left - 1 : std::floor(job.left + kAlike);
    }
    pass(std::move(world));
  }

  void start(World& world) {
    std::vector<char> is_taken(list_.hosts.size(), 0);
    for (const Job& job : world.jobs) {
      for (const int h : job.here) is_taken[h] = 1;
    }
    for (int j = 0; j < std::ssize(world.jobs); ++j) {
      Job& job = world.jobs[j];
      if (!job.here.empty() || job.target.empty()) continue;
      if (std::ranges::any_of(job.target, [&](int h) { return is_taken[h] != 0; })) continue;
      job.here = job.target;
      job.start_left = list_.jobs[j].start_s;
      job.stop_at = 0;
      for (const int h : job.here) is_taken[h] = 1;
    }
  }

  // Until the next arrival or end.
  void pass(World world) {
    for (bool is_due = false; !is_due;) {
      start(world);
      double dt = kCantTrain;
      for (int j = 0; j < std::ssize(world.jobs); ++j) {
        const Job& job = world.jobs[j];
        if (!job.is_there) dt = std::min(dt, list_.jobs[j].arrival_s - world.now);
        if (!job.here.empty()) {
          dt = std::min(dt, job.start_left > 0 ? job.start_left
                                               : (job.left - job.stop_at) * epoch_s(j, job.here));
        }
      }
      if (dt == kCantTrain) return;
      dt = std::max(dt, 0.0);
      world.now += dt;
      for (int j = 0; j < std::ssize(world.jobs); ++j) is_due |= go_on(world, j, dt);
    }
    const bool is_over = std::ranges::all_of(world.jobs, &Job::has_ended);
    if (is_over) best_ = std::min(best_, world.sum);
    if (!is_over && least_sum(world) < best_) decide(world);
  }

  bool go_on(World& world, int j, double dt) {
    Job& job = world.jobs[j];
    if (!job.is_there && list_.jobs[j].arrival_s <= world.now + kAlike) {
      job.is_there = true;
      return true;
    }
    if (job.here.empty()) return false;
    if (job.start_left > 0) {
      job.start_left = job.start_left - dt < kAlike ? 0 : job.start_left - dt;
      return false;
    }
    job.left -= dt / epoch_s(j, job.here);
    if (job.left > job.stop_at + kAlike) return false;
    job.left = job.stop_at;
    job.here.clear();
    if (job.left > 0) return false;
    job.has_ended = true;
    world.sum += list_.jobs[j].priority * (world.now - list_.jobs[j].arrival_s);
    return true;
  }

  const MadeList& list_;
  JobSpeeds& speeds_;
  bool elastic_;
  double weights_ = 0;
  std::vector<double> fastest_s_;  // of an epoch, by job
  double best_ = kCantTrain;
};

class TinyListsTest : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Seeds, TinyListsTest, ::testing::Range(100, 700));

TEST_P(TinyListsTest, exhaustive_is_the_best_of_all) {
  const bool many_jobs = GetParam() % 2 == 0;
  const MadeList made(static_cast<std::uint64_t>(GetParam()), many_jobs ? 3 : 2, many_jobs ? 2 : 3,
                      1);
  MadeSpeeds speeds = made.speeds();
  const ScheduleSetting setting = setting_of(made, speeds);
  const double bound_s = completion_bound_s(setting);
  for (const bool elastic : {false, true}) {
    SCOPED_TRACE(elastic);
    const JobSchedule schedule = exhaustive_schedule(setting, elastic);
    check(made, schedule);
    const double best_s = BruteForce(made, speeds, elastic).best_mean_s();
    EXPECT_LE(bound_s, best_s * (1 + kAlike));
    EXPECT_NEAR(schedule.mean_completion_s, best_s, kAlike * best_s);
    const JobSchedule search = simulate(made, "search", {.elastic = elastic});
    EXPECT_GE(search.mean_completion_s, schedule.mean_completion_s * (1 - kAlike));
  }
}

TEST(ExhaustiveScheduleTest, it_is_for_few_jobs) {
  const MadeList made(1, kMostExhaustiveJobs + 1, 2, 1);
  MadeSpeeds speeds = made.speeds();
  EXPECT_THROW(exhaustive_schedule(setting_of(made, speeds)), Error);
}

}  // namespace
}  // namespace atl
