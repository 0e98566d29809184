// How good policies of schedules are: mean completion against first-come, the bound and the best of
// all schedules, simulated; and how long they think.
//
//   bench_schedule [--lists=N] [--first=SEED] [--evaluations=N] [--tiny=N]
//   bench_schedule --file=LISTS.json [--evaluations=N]
//
// The first table is of lists of 4 to 20 jobs on 4 hosts of 2 slots (schedule_lists.hpp), the
// second one of lists of 3 to 5 jobs on 4 hosts of one slot, where the best schedule is known.
// Cells are medians over lists, quartiles in brackets. "first-come, least ranks" and "fastest
// ranks": fifo where every job has its fewest ranks, or those that make it fastest when alone.
// Elastic: running jobs may get other ranks. "longest job": completion of the job that takes
// longest when alone, by that under first-come. A decision is what is asked at an arrival or an
// end. The best elastic schedule of five jobs may take hours to find: its figures are those of the
// lists with fewer.
//
// --file: one table of the mean completion of each list under each policy, not elastic and without
// knowledge of what arrives, as tests/benchmarks/tapfinger.py makes such files.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "engine/placement/job_placements.hpp"
#include "tests/benchmarks/arguments.hpp"
#include "tests/benchmarks/schedule_lists.hpp"
#include "tests/support/exhaustive_schedule.hpp"

namespace atl {
namespace {

struct Options {
  int lists = 60;
  int tiny = 60;
  std::uint64_t first = 1;
  std::int64_t evaluations = 2000;
  std::string file;
};

// A policy that notes how long it thinks.
class TimedPolicy final : public JobPolicy {
 public:
  explicit TimedPolicy(std::unique_ptr<JobPolicy> policy) : policy_(std::move(policy)) {}
  JobTargets decide(const ScheduleMoment& moment, JobSpeeds& speeds) override {
    const auto began = std::chrono::steady_clock::now();
    JobTargets targets = policy_->decide(moment, speeds);
    seconds_.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
    return targets;
  }
  const std::vector<double>& seconds() const { return seconds_; }

 private:
  std::unique_ptr<JobPolicy> policy_;
  std::vector<double> seconds_;
};

struct Contender {
  std::string title;
  std::string policy;
  JobPolicyOptions options;
  // Changes the most ranks of jobs.
  enum class Ranks : std::uint8_t { kAll, kLeast, kFastest } ranks = Ranks::kAll;
};

std::vector<Contender> contenders(std::int64_t evaluations) {
  using Ranks = Contender::Ranks;
  std::vector<Contender> all = {{"first-come", "fifo", {}},
                                {"first-come, least ranks", "fifo", {}, Ranks::kLeast},
                                {"first-come, fastest ranks", "fifo", {}, Ranks::kFastest}};
  for (const bool elastic : {false, true}) {
    const char* what = elastic ? ", elastic" : "";
    for (const char* name : {"srpt", "marginal"}) {
      all.push_back({fmt::format("{}{}", name, what), name, {.elastic = elastic}});
    }
    for (const bool knows : {false, true}) {
      all.push_back({fmt::format("search{}{}", what, knows ? ", arrivals known" : ""),
                     "search",
                     {.elastic = elastic, .evaluations = evaluations, .knows_arrivals = knows}});
    }
  }
  return all;
}

// The best elastic schedule of more is not looked for.
constexpr int kMostElasticJobs = 4;

struct Outcome {
  double mean_s = 0;
  double longest_s = 0;  // completion of the job with most epochs by their seconds
  std::vector<double> thought_s;
};

// The seconds of its epoch by ranks, on hosts without other jobs.
std::vector<double> seconds_by_ranks(const ScheduledList& list, int job) {
  int slots = 0;
  for (const ScheduledHost& host : list.hosts) slots += host.slots;
  return fastest_by_ranks(job, slots, FreeSlots(list.hosts), *list.speeds);
}

int fastest_ranks(const ScheduledList& list, int job) {
  const std::vector<double> seconds = seconds_by_ranks(list, job);
  return static_cast<int>(std::ranges::min_element(seconds) - seconds.begin());
}

std::size_t longest_job(const ScheduledList& list) {
  std::vector<double> seconds;
  for (int job = 0; job < std::ssize(list.jobs); ++job) {
    const SchedulableJob& asked = list.jobs[static_cast<std::size_t>(job)];
    seconds.push_back(static_cast<double>(asked.epochs) *
                      std::ranges::min(seconds_by_ranks(list, job)));
  }
  return static_cast<std::size_t>(std::ranges::max_element(seconds) - seconds.begin());
}

Outcome simulate(ScheduledList list, const Contender& contender) {
  for (int job = 0; job < std::ssize(list.jobs); ++job) {
    SchedulableJob& asked = list.jobs[static_cast<std::size_t>(job)];
    if (contender.ranks == Contender::Ranks::kFastest) {
      asked.least_ranks = asked.most_ranks = fastest_ranks(list, job);
    }
    if (contender.ranks == Contender::Ranks::kLeast) {
      const auto fits = [&](int ranks) {
        return std::isfinite(list.speeds->epoch_s(job, {{0}, ranks}));
      };
      while (asked.least_ranks < list.hosts[0].slots && !fits(asked.least_ranks)) {
        ++asked.least_ranks;
      }
      asked.most_ranks = fits(asked.least_ranks) ? asked.least_ranks : asked.most_ranks;
    }
  }
  TimedPolicy policy(make_job_policy(contender.policy, contender.options));
  const JobSchedule schedule = simulate_schedule(list.setting(), policy);
  return {schedule.mean_completion_s, schedule.completion_s[longest_job(list)], policy.seconds()};
}

double quantile(std::vector<double> values, double share) {
  std::ranges::sort(values);
  const double place = share * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::size_t>(place);
  const auto high = std::min(low + 1, values.size() - 1);
  return values[low] + (place - std::floor(place)) * (values[high] - values[low]);
}

std::string spread(const std::vector<double>& values) {
  if (values.empty()) return "-";
  return fmt::format("{:.2f} ({:.2f} to {:.2f})", quantile(values, 0.5), quantile(values, 0.25),
                     quantile(values, 0.75));
}

struct Row {
  std::vector<double> by_first_come;
  std::vector<double> by_bound;
  std::vector<double> by_best;  // of the same elasticity
  std::vector<double> longest;  // completion of the longest job, by that under first-come
  std::vector<double> thought_s;
};

void print_rows(const std::vector<std::pair<std::string, Row>>& rows, bool has_best) {
  const char* last = has_best ? "/ best | worst / best" : "longest job | ms per decision, most";
  fmt::print("| policy | / first-come | / bound | {} |\n", last);
  fmt::print("|---|---|---|---|---:|\n");
  for (const auto& [title, row] : rows) {
    fmt::print("| {} | {} | {} |", title, spread(row.by_first_come), spread(row.by_bound));
    if (has_best) {
      fmt::print(" {} | {:.2f} |\n", spread(row.by_best), quantile(row.by_best, 1));
    } else {
      fmt::print(" {} | {:.3g} |\n", spread(row.longest), 1e3 * quantile(row.thought_s, 1));
    }
  }
}

// How well the trainings scale.
void print_speeds(const ListRanges& ranges, int count, const Options& options) {
  const int slots = ranges.hosts * ranges.slots;
  std::vector<double> some, all, epochs_s, minutes;
  for (int k = 0; k < count; ++k) {
    const ScheduledList list = random_list(ranges, options.first + static_cast<std::uint64_t>(k));
    for (int job = 0; job < std::ssize(list.jobs); ++job) {
      const std::vector<double> seconds = seconds_by_ranks(list, job);
      if (seconds[1] == kCantTrain) continue;
      some.push_back(seconds[1] / seconds[2]);
      all.push_back(seconds[1] / seconds[static_cast<std::size_t>(slots)]);
      epochs_s.push_back(seconds[1]);
      minutes.push_back(seconds[1] * static_cast<double>(list.jobs[job].epochs) / 60);
    }
  }
  fmt::print("A job on one rank: {} minutes, {} s per epoch\n", spread(minutes), spread(epochs_s));
  fmt::print("So many times as fast on 2 ranks: {}, on {}: {}\n\n", spread(some), slots,
             spread(all));
}

void compare(const ListRanges& ranges, int count, const Options& options, bool has_best) {
  std::vector<std::pair<std::string, Row>> rows;
  const std::vector<Contender> all = contenders(options.evaluations);
  for (const Contender& contender : all) rows.emplace_back(contender.title, Row{});
  if (has_best) {
    rows.emplace_back("best", Row{});
    rows.emplace_back("best, elastic", Row{});
  }
  for (int k = 0; k < count; ++k) {
    const ScheduledList list = random_list(ranges, options.first + static_cast<std::uint64_t>(k));
    const double bound_s = completion_bound_s(list.setting());
    std::optional<double> best_s[2];
    Outcome first_come;
    for (const bool elastic : {false, true}) {
      if (!has_best || (elastic && std::ssize(list.jobs) > kMostElasticJobs)) continue;
      best_s[elastic] = exhaustive_schedule(list.setting(), elastic).mean_completion_s;
    }
    const auto note = [&](Row& row, double mean_s, bool elastic) {
      row.by_first_come.push_back(mean_s / first_come.mean_s);
      row.by_bound.push_back(mean_s / bound_s);
      if (best_s[elastic]) row.by_best.push_back(mean_s / *best_s[elastic]);
    };
    for (std::size_t c = 0; c < all.size(); ++c) {
      const Outcome outcome = simulate(list, all[c]);
      if (c == 0) first_come = outcome;
      const bool elastic = all[c].options.elastic && all[c].policy != "fifo";
      note(rows[c].second, outcome.mean_s, elastic);
      rows[c].second.longest.push_back(outcome.longest_s / first_come.longest_s);
      std::ranges::copy(outcome.thought_s, std::back_inserter(rows[c].second.thought_s));
    }
    for (std::size_t e = 0; has_best && e < 2; ++e) {
      if (best_s[e]) note(rows[all.size() + e].second, *best_s[e], e == 1);
    }
    fmt::print(stderr, "\r{} of {}", k + 1, count);
  }
  fmt::print(stderr, "\n");
  print_speeds(ranges, count, options);
  print_rows(rows, has_best);
}

void print_file(const Options& options) {
  const std::vector<ScheduledList> lists = read_lists(options.file);
  std::vector<Contender> all;
  for (const Contender& contender : contenders(options.evaluations)) {
    const bool is_fair = contender.policy == "fifo" || !contender.options.elastic;
    if (is_fair && (contender.policy != "search" || !contender.options.knows_arrivals)) {
      all.push_back(contender);
    }
  }
  fmt::print("list,bound");
  for (const Contender& contender : all) fmt::print(",\"{}\"", contender.title);
  fmt::print("\n");
  for (std::size_t k = 0; k < lists.size(); ++k) {
    fmt::print("{},{:.4f}", k, completion_bound_s(lists[k].setting()));
    for (const Contender& contender : all) {
      fmt::print(",{:.4f}", simulate(lists[k], contender).mean_s);
    }
    fmt::print("\n");
  }
}

Options parse(int argc, char** argv) {
  Options options;
  for (int k = 1; k < argc; ++k) {
    const std::string_view argument = argv[k];
    const std::size_t equals = argument.find('=');
    const std::string_view name = argument.substr(0, equals);
    const std::string_view value =
        equals == std::string_view::npos ? "" : argument.substr(equals + 1);
    if (name == "--lists") {
      options.lists = parse_number<int>(name, value, "whole numbers above 0");
    } else if (name == "--tiny") {
      options.tiny = parse_number<int>(name, value, "whole numbers above 0");
    } else if (name == "--first") {
      options.first = parse_number<std::uint64_t>(name, value, "whole numbers above 0");
    } else if (name == "--evaluations") {
      options.evaluations = parse_number<std::int64_t>(name, value, "whole numbers above 0");
    } else if (name == "--file") {
      options.file = value;
    } else {
      fail_option("{}: allowed are --lists, --tiny, --first, --evaluations, --file", name);
    }
  }
  return options;
}

void run(const Options& options) {
  if (!options.file.empty()) {
    print_file(options);
    return;
  }
  fmt::print("{} lists of 4 to 20 jobs on 4 hosts of 2 slots\n\n", options.lists);
  compare({}, options.lists, options, false);
  fmt::print("\n{} lists of 3 to 5 jobs on 4 hosts of 1 slot\n\n", options.tiny);
  compare({3, kMostExhaustiveJobs, 4, 1}, options.tiny, options, true);
}

}  // namespace
}  // namespace atl

int main(int argc, char** argv) {
  try {
    atl::run(atl::parse(argc, argv));
  } catch (const atl::Error& error) {
    fmt::print(stderr, "bench_schedule: {}\n", error.what());
    return error.exit_code();
  }
  return 0;
}
