// How good policies of schedules are: mean completion against first-come, the bound and the best of
// all schedules, simulated; and how long they think.
//
//   bench_schedule [--lists=N] [--first=SEED] [--evaluations=N] [--tiny=N]
//   bench_schedule --file=LISTS.json [--evaluations=N]
//
// The first table is of lists of 4 to 20 jobs on 4 hosts of 2 slots (schedule_lists.hpp), the
// second one of lists of 3 to 5 jobs on 4 hosts of one slot, where the best schedule is known.
// Cells are medians, quartiles in brackets. "first-come, least ranks" and "fastest ranks": fifo
// where every job has its fewest ranks, or those that make it fastest when alone. Elastic: running
// jobs may get other ranks. A decision is what is asked at an arrival or an end.
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
#include <string>
#include <vector>

#include "base/error.hpp"
#include "tests/benchmarks/arguments.hpp"
#include "tests/benchmarks/schedule_lists.hpp"

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

struct Outcome {
  double mean_s = 0;
  std::vector<double> thought_s;
};

int fastest_ranks(const ScheduledList& list, int job) {
  int fastest = 1;
  double least = kCantTrain;
  for (int h = 1; h <= std::ssize(list.hosts); ++h) {
    for (int k = 1; k <= list.hosts[0].slots; ++k) {
      JobPlacement placement{{}, k};
      for (int host = 0; host < h; ++host) placement.hosts.push_back(host);
      const double epoch_s = list.speeds->epoch_s(job, placement);
      if (epoch_s >= least) continue;
      least = epoch_s;
      fastest = placement.ranks();
    }
  }
  return fastest;
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
  const double mean_s = simulate_schedule(list.setting(), policy).mean_completion_s;
  return {mean_s, policy.seconds()};
}

double quantile(std::vector<double> values, double share) {
  std::ranges::sort(values);
  const double place = share * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::size_t>(place);
  const auto high = std::min(low + 1, values.size() - 1);
  return values[low] + (place - std::floor(place)) * (values[high] - values[low]);
}

std::string spread(const std::vector<double>& values) {
  return fmt::format("{:.3f} ({:.3f} to {:.3f})", quantile(values, 0.5), quantile(values, 0.25),
                     quantile(values, 0.75));
}

struct Row {
  std::vector<double> by_first_come;
  std::vector<double> by_bound;
  std::vector<double> by_best;  // of the same elasticity
  std::vector<double> thought_s;
};

void print_rows(const std::vector<std::pair<std::string, Row>>& rows, bool has_best) {
  fmt::print("| policy | / first-come | / bound |{} ms per decision, median | most |\n",
             has_best ? " / best | worst / best |" : "");
  fmt::print("|---|---|---|{}---:|---:|\n", has_best ? "---|---:|" : "");
  for (const auto& [title, row] : rows) {
    fmt::print("| {} | {} | {} |", title, spread(row.by_first_come), spread(row.by_bound));
    if (has_best) fmt::print(" {} | {:.3f} |", spread(row.by_best), quantile(row.by_best, 1));
    if (row.thought_s.empty()) {
      fmt::print(" | |\n");
    } else {
      fmt::print(" {:.2f} | {:.0f} |\n", 1e3 * quantile(row.thought_s, 0.5),
                 1e3 * quantile(row.thought_s, 1));
    }
  }
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
    double best_s[] = {0, 0};
    double first_come_s = 0;
    for (const bool elastic : {false, true}) {
      if (has_best)
        best_s[elastic] = exhaustive_schedule(list.setting(), elastic).mean_completion_s;
    }
    const auto note = [&](Row& row, double mean_s, bool elastic) {
      row.by_first_come.push_back(mean_s / first_come_s);
      row.by_bound.push_back(mean_s / bound_s);
      if (has_best) row.by_best.push_back(mean_s / best_s[elastic]);
    };
    for (std::size_t c = 0; c < all.size(); ++c) {
      const Outcome outcome = simulate(list, all[c]);
      if (c == 0) first_come_s = outcome.mean_s;
      const bool elastic = all[c].options.elastic && all[c].policy != "fifo";
      note(rows[c].second, outcome.mean_s, elastic);
      std::ranges::copy(outcome.thought_s, std::back_inserter(rows[c].second.thought_s));
    }
    for (std::size_t e = 0; has_best && e < 2; ++e) {
      note(rows[all.size() + e].second, best_s[e], e == 1);
    }
    fmt::print(stderr, "\r{} of {}", k + 1, count);
  }
  fmt::print(stderr, "\n");
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
