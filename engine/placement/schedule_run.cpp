#include "engine/placement/schedule_run.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.hpp"

namespace atl {

namespace {

// Epochs and seconds, as shares of what they were: events that rounding alone keeps apart.
constexpr double kTiny = 1e-9;

}  // namespace

void check_jobs_fit(const ScheduleSetting& setting) {
  std::vector<ScheduledHost> all(setting.hosts.begin(), setting.hosts.end());
  for (ScheduledHost& host : all) host.is_lost = false;
  const FreeSlots free(all);
  for (int job = 0; job < std::ssize(setting.jobs); ++job) {
    const SchedulableJob& asked = setting.jobs[job];
    const bool is_open =
        setting.states.empty() || setting.states[job].phase != JobState::Phase::kEnded;
    if (!is_open ||
        fastest_placement(job, {asked.least_ranks, asked.most_ranks}, free, setting.speeds)) {
      continue;
    }
    fail_option(
        "job {}: {} to {} ranks, as many on each host, can't train it on these {} hosts of {} "
        "slots in all: too few slots or too little memory",
        asked.name, asked.least_ranks, asked.most_ranks, all.size(), free.total());
  }
}

ScheduleRun::ScheduleRun(const ScheduleSetting& setting, Record record)
    : setting_(setting),
      record_(record),
      progress_(setting.jobs, {setting.hosts.begin(), setting.hosts.end()}, setting.states),
      now_s_(setting.now_s) {
  for (int job = 0; job < std::ssize(setting.jobs); ++job) {
    const JobState& state = progress_.state(job);
    if (state.phase != JobState::Phase::kEnded) ++open_;
    if (state.phase == JobState::Phase::kNotArrived) arrivals_.push_back(job);
    if (state.phase == JobState::Phase::kRunning) stretches_.push_back(stretch_of(job));
  }
  std::ranges::stable_sort(arrivals_, [&](int a, int b) {
    return setting.jobs[a].arrival_s > setting.jobs[b].arrival_s;
  });
  schedule_.completion_s.resize(setting.jobs.size());
  take_host_events();
  take_arrivals();
}

bool ScheduleRun::advance() {
  while (!is_due_) {
    start_what_can();
    if (!step()) return false;
  }
  is_due_ = false;
  return !is_over();
}

void ScheduleRun::follow(JobTargets targets) {
  progress_.follow(std::move(targets));
  for (Stretch& stretch : stretches_) stretch.stop_at = stop_place(stretch.job);
}

// A start, too, ends after an epoch alone.
double ScheduleRun::stop_place(int job) const {
  if (!progress_.must_stop(job)) return 0;
  const JobState& state = progress_.state(job);
  if (state.start_left_s > 0) return std::max(0.0, std::ceil(state.epochs_left - kTiny) - 1);
  return std::floor(state.epochs_left + kTiny);
}

ScheduleRun::Stretch ScheduleRun::stretch_of(int job) const {
  const JobState& state = progress_.state(job);
  Stretch stretch{job, setting_.speeds.epoch_s(job, *state.placement)};
  ATOLL_ASSERT(std::isfinite(stretch.epoch_s) && stretch.epoch_s > 0, "an epoch of {} s",
               stretch.epoch_s);
  stretch.shares = setting_.speeds.card_shares(job, *state.placement);
  stretch.from_s = now_s_;
  stretch.epochs_left_before = state.epochs_left;
  return stretch;
}

void ScheduleRun::start_what_can() {
  for (const int job : progress_.can_start()) {
    progress_.note(job, progress_.state(job).epochs_left, setting_.jobs[job].start_s);
    progress_.start(job);
    stretches_.push_back(stretch_of(job));
    are_rates_stale_ = true;
  }
}

double ScheduleRun::seconds_to(const Stretch& stretch) const {
  const JobState& state = progress_.state(stretch.job);
  if (state.start_left_s > 0) return state.start_left_s;
  const double epochs = state.epochs_left - stretch.stop_at;
  return std::max(0.0, epochs) * stretch.epoch_s / stretch.rate;
}

bool ScheduleRun::step() {
  if (are_rates_stale_) share_cards();
  double next_s = kNever;
  if (!arrivals_.empty()) next_s = setting_.jobs[arrivals_.back()].arrival_s;
  if (next_event_ < setting_.host_events.size()) {
    next_s = std::min(next_s, setting_.host_events[next_event_].at_s);
  }
  for (const Stretch& stretch : stretches_) {
    next_s = std::min(next_s, now_s_ + seconds_to(stretch));
  }
  if (next_s == kNever) return false;
  next_s = std::max(next_s, now_s_);
  pass(next_s - now_s_);
  now_s_ = next_s;
  settle_stretches();
  take_host_events();
  take_arrivals();
  return true;
}

void ScheduleRun::pass(double seconds) {
  for (const Stretch& stretch : stretches_) {
    const JobState& state = progress_.state(stretch.job);
    if (state.start_left_s > 0) {
      const double left = state.start_left_s - seconds;
      const double start_s = setting_.jobs[stretch.job].start_s;
      const bool begins = left <= kTiny * (start_s + 1e-3 * now_s_);
      are_rates_stale_ |= begins;
      progress_.note(stretch.job, state.epochs_left, begins ? 0 : left);
    } else {
      progress_.note(stretch.job, state.epochs_left - seconds * stretch.rate / stretch.epoch_s);
    }
  }
}

void ScheduleRun::settle_stretches() {
  for (std::size_t k = stretches_.size(); k-- > 0;) {
    const Stretch& stretch = stretches_[k];
    const JobState& state = progress_.state(stretch.job);
    // Also where less time is left than numbers of this size can tell.
    const bool is_over = state.epochs_left - stretch.stop_at <= kTiny ||
                         seconds_to(stretch) <= kTiny * 1e-3 * now_s_;
    if (state.start_left_s > 0 || !is_over) continue;
    const int job = stretch.job;
    progress_.note(job, stretch.stop_at);
    close(k);
    if (progress_.state(job).epochs_left > 0) {
      progress_.stop(job);
      continue;
    }
    progress_.end(job);
    --open_;
    is_due_ = true;
    schedule_.completion_s[job] = now_s_ - setting_.jobs[job].arrival_s;
    weighted_sum_s_ += setting_.jobs[job].priority * schedule_.completion_s[job];
    schedule_.makespan_s = now_s_;
  }
}

void ScheduleRun::close(std::size_t k) {
  const Stretch& stretch = stretches_[k];
  if (record_ == Record::kSegments && now_s_ > stretch.from_s) {
    const JobState& state = progress_.state(stretch.job);
    const auto all = static_cast<double>(setting_.jobs[stretch.job].epochs);
    schedule_.segments.push_back({stretch.job, *state.placement, stretch.from_s, now_s_,
                                  all - stretch.epochs_left_before, all - state.epochs_left});
  }
  stretches_.erase(stretches_.begin() + static_cast<std::ptrdiff_t>(k));
  are_rates_stale_ = true;
}

void ScheduleRun::take_host_events() {
  for (; next_event_ < setting_.host_events.size(); ++next_event_) {
    const HostEvent& event = setting_.host_events[next_event_];
    if (event.at_s > now_s_) return;
    progress_.set_lost(event.host, event.is_lost);
    is_due_ = true;
    if (!event.is_lost) continue;
    for (std::size_t k = stretches_.size(); k-- > 0;) {
      const int job = stretches_[k].job;
      const JobState& state = progress_.state(job);
      if (std::ranges::find(state.placement->hosts, event.host) == state.placement->hosts.end()) {
        continue;
      }
      progress_.note(job, std::ceil(state.epochs_left - kTiny));
      close(k);
      progress_.stop(job);
    }
  }
}

void ScheduleRun::take_arrivals() {
  while (!arrivals_.empty() && setting_.jobs[arrivals_.back()].arrival_s <= now_s_) {
    progress_.arrive(arrivals_.back());
    arrivals_.pop_back();
    is_due_ = true;
  }
}

void ScheduleRun::share_cards() {
  std::vector<CardUse> uses;
  std::vector<std::size_t> places;
  for (std::size_t k = 0; k < stretches_.size(); ++k) {
    const JobState& state = progress_.state(stretches_[k].job);
    if (state.start_left_s > 0) continue;
    uses.push_back({state.placement->hosts, stretches_[k].shares});
    places.push_back(k);
  }
  const std::vector<double> rates = fair_rates(uses, static_cast<int>(setting_.hosts.size()));
  for (std::size_t k = 0; k < places.size(); ++k) stretches_[places[k]].rate = rates[k];
  are_rates_stale_ = false;
}

JobSchedule ScheduleRun::schedule() const {
  for (int job = 0; job < std::ssize(setting_.jobs); ++job) {
    if (progress_.state(job).phase == JobState::Phase::kEnded) continue;
    const std::span<const ScheduledHost> hosts = progress_.hosts();
    const auto lost = std::ranges::count_if(hosts, &ScheduledHost::is_lost);
    ATOLL_ASSERT(lost > 0, "job {} never starts", job);
    fail_option("job {}: {} to {} ranks can't train it on the {} hosts that are left",
                setting_.jobs[job].name, setting_.jobs[job].least_ranks,
                setting_.jobs[job].most_ranks, std::ssize(hosts) - lost);
  }
  JobSchedule schedule = schedule_;
  std::ranges::stable_sort(schedule.segments, {}, &JobSegment::from_s);
  schedule.mean_completion_s = weighted_sum_s_ / sum_of_priorities(setting_.jobs);
  return schedule;
}

double sum_of_priorities(std::span<const SchedulableJob> jobs) {
  double sum = 0;
  for (const SchedulableJob& job : jobs) sum += job.priority;
  return sum;
}

double simulated_mean_s(const ScheduleSetting& setting, JobPolicy& policy) {
  ScheduleRun run(setting, ScheduleRun::Record::kNothing);
  while (run.advance()) run.follow(policy.decide(run.moment(), setting.speeds));
  return run.is_over() ? run.weighted_sum_s() / sum_of_priorities(setting.jobs) : kNever;
}

JobSchedule simulate_schedule(const ScheduleSetting& setting, JobPolicy& policy) {
  KnownSpeeds speeds(setting.speeds, setting.hosts);
  const ScheduleSetting known{setting.jobs,   setting.hosts, speeds,
                              setting.states, setting.now_s, setting.host_events};
  check_jobs_fit(known);
  ScheduleRun run(known);
  while (run.advance()) run.follow(policy.decide(run.moment(), speeds));
  return run.schedule();
}

}  // namespace atl
