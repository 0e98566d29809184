// The worth of the trained policy to the tree search, on machines, models and cuts that it never
// saw: simulated epochs until the first improvement on the start, and the best epoch after 50.
//
//   bench_policy [--instances=N] [--first=SEED] [--evaluations=N] [--weights=FILE]
//   [--data=FOLDER]...
//
// Instances are drawn from kHeldOutRanges; with --data they have the real cuts of that graph, as
// `atoll plan` makes them, for machines drawn from these ranges. Each is searched by mcts with both
// priors and the same seed. The start counts as an evaluation; the policy reads nothing that the
// search didn't simulate itself. Because asking it takes time, too, the last lines compare it with
// a uniform search of 2.5 times as many epochs. Differences are paired, policy less uniform;
// intervals are of 10,000 bootstrap samples of their mean.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/median.hpp"
#include "datasets/dataset.hpp"
#include "engine/placement/policy/policy_prior.hpp"
#include "engine/placement/policy/random_instance.hpp"
#include "engine/placement/random_draws.hpp"

namespace atl {
namespace {

struct Options {
  int instances = 200;
  int first = 1'000'001;
  int evaluations = 50;
  std::string weights;
  std::vector<std::string> data;
};

// Larger machines, slower and faster networks, deeper and wider models, other graphs: every range
// goes beyond the one that the policy learnt from.
constexpr InstanceRanges kHeldOutRanges = {.hosts = {2, 6},
                                           .ranks_per_host = {1, 6},
                                           .card_bytes_per_s = {2.5e6, 5e10},
                                           .device_gb_per_s = {1, 4000},
                                           .slowdown = {1, 8},
                                           .layers = {2, 6},
                                           .features = {8, 2048},
                                           .hidden = {8, 1024},
                                           .nodes = {5e3, 5e7},
                                           .degree = {2, 250},
                                           .halo = {0.01, 2.0}};

struct Outcome {
  double calls = 0;    // until the first improvement; one more than there were if there was none
  double seconds = 0;  // best epoch by the start's
  double wall_s = 0;
  bool fits = false;
};

Outcome search(PlanSpace& space, const Prior& prior, int evaluations, std::uint64_t seed) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point began = Clock::now();
  const SearchResult found =
      atl::search("mcts", space, {.evaluations = evaluations, .seed = seed, .prior = prior});
  Outcome outcome;
  outcome.wall_s = std::chrono::duration<double>(Clock::now() - began).count();
  outcome.calls =
      found.improvements.empty() ? evaluations + 1 : found.improvements.front().evaluations;
  outcome.seconds = found.cost.seconds / found.start.seconds;
  outcome.fits = found.cost.missing_bytes == 0;
  ATOLL_ASSERT(found.evaluations <= evaluations && !is_better(found.start, found.cost));
  return outcome;
}

double mean(const std::vector<double>& values) {
  return std::reduce(values.begin(), values.end()) / static_cast<double>(values.size());
}

// The mean's 2.5 % and 97.5 % quantiles of bootstrap samples.
std::pair<double, double> interval(const std::vector<double>& values) {
  constexpr int kSamples = 10000;
  RandomDraws draws(1);
  std::vector<double> means;
  for (int k = 0; k < kSamples; ++k) {
    double sum = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      sum += values[static_cast<std::size_t>(draws.below(static_cast<int>(values.size())))];
    }
    means.push_back(sum / static_cast<double>(values.size()));
  }
  std::ranges::sort(means);
  return {means[kSamples / 40], means[kSamples - kSamples / 40]};
}

void report(const std::string& what, const std::vector<double>& uniform,
            const std::vector<double>& policy) {
  std::vector<double> difference;
  int better = 0, worse = 0;
  for (std::size_t i = 0; i < uniform.size(); ++i) {
    difference.push_back(policy[i] - uniform[i]);
    better += policy[i] < uniform[i] - 1e-9 ? 1 : 0;
    worse += policy[i] > uniform[i] + 1e-9 ? 1 : 0;
  }
  const auto [low, high] = interval(difference);
  fmt::print(
      "{:<34} uniform {:8.4f} (median {:.4f})  policy {:8.4f} (median {:.4f})  difference {:+.4f} "
      "[{:+.4f}, {:+.4f}]  policy better in {}, worse in {}\n",
      what, mean(uniform), median(uniform), mean(policy), median(policy), mean(difference), low,
      high, better, worse);
}

class Comparison {
 public:
  Comparison(PolicyNetwork& network, const Options& options)
      : network_(network), options_(options) {}

  void add(PlanSpace& space, std::uint64_t seed) {
    const Outcome plain = search(space, {}, options_.evaluations, seed);
    const int more = options_.evaluations * 5 / 2;
    const Outcome longer = search(space, {}, more, seed);
    const Prior prior = policy_prior(space, network_);
    const Outcome guided = search(space, prior, options_.evaluations, seed);
    sizes_.push_back(std::log10(choices(space)));
    calls_[0].push_back(plain.calls);
    calls_[1].push_back(guided.calls);
    wall_[0].push_back(1000 * plain.wall_s);
    wall_[1].push_back(1000 * guided.wall_s);
    if (longer.fits == guided.fits) {
      longer_[0].push_back(longer.seconds);
      longer_[1].push_back(guided.seconds);
    }
    longer_wall_[0].push_back(1000 * longer.wall_s);
    longer_wall_[1].push_back(1000 * guided.wall_s);
    if (plain.fits != guided.fits) {
      ++(guided.fits ? only_guided_fits_ : only_plain_fits_);
    } else {
      best_[0].push_back(plain.seconds);
      best_[1].push_back(guided.seconds);
    }
  }

  void print() const {
    fmt::print("{} instances of 10^{:.1f} choices (median), {} evaluations each\n", sizes_.size(),
               median(sizes_), options_.evaluations);
    report("calls until first improvement", calls_[0], calls_[1]);
    report("best epoch / start's", best_[0], best_[1]);
    report("wall ms of a search", wall_[0], wall_[1]);
    report("best epoch, uniform with 2.5 x", longer_[0], longer_[1]);
    report("wall ms, uniform with 2.5 x", longer_wall_[0], longer_wall_[1]);
    fmt::print("plans that fit found by the policy alone: {}, by uniform alone: {}\n",
               only_guided_fits_, only_plain_fits_);
  }

 private:
  static double choices(const PlanSpace& space) {
    double product = 1;
    for (int d = 0; d < space.decisions(); ++d) product *= space.options(d);
    return product;
  }

  PolicyNetwork& network_;
  const Options& options_;
  std::vector<double> sizes_, calls_[2], best_[2], wall_[2], longer_[2], longer_wall_[2];
  int only_guided_fits_ = 0, only_plain_fits_ = 0;
};

void add_real_cuts(const std::string& folder, const Options& options, Comparison& comparison) {
  const Dataset dataset = Dataset::open(folder);
  const std::span<const std::uint8_t> split =
      dataset.info().splits == 0 ? std::span<const std::uint8_t>() : dataset.split(0);
  for (int k = 0; k < options.instances; ++k) {
    const auto seed = static_cast<std::uint64_t>(options.first + k);
    const auto instance = random_instance(kHeldOutRanges, seed);
    // The drawn cuts go, and with them memory that may have been fitted to them: every plan fits.
    instance->space.reset();
    for (Device& device : instance->topology.devices) device.memory_bytes = 1e15;
    instance->model.features = dataset.info().features;
    instance->model.outputs = dataset.info().classes;
    PartitionOptions cut;
    cut.cuts = 1;
    instance->cuts =
        cut_candidates(dataset.graph(), split, cut, instance->topology, instance->model);
    PlanSpace space(instance->topology, instance->model, instance->cuts, instance->bits);
    comparison.add(space, seed);
  }
}

int run(const Options& options) {
  PolicyNetwork network = options.weights.empty() ? shipped_policy() : read_policy(options.weights);
  Comparison comparison(network, options);
  for (const std::string& folder : options.data) add_real_cuts(folder, options, comparison);
  for (int k = 0; k < options.instances && options.data.empty(); ++k) {
    const auto seed = static_cast<std::uint64_t>(options.first + k);
    const auto instance = random_instance(kHeldOutRanges, seed);
    comparison.add(*instance->space, seed);
  }
  comparison.print();
  return 0;
}

int number_of(const std::string& text) {
  int number = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), number);
  if (end.ec != std::errc() || end.ptr != text.data() + text.size() || number < 1) {
    fail_option("'{}' is no number from 1 on", text);
  }
  return number;
}

Options parse(int argc, char** argv) {
  Options options;
  for (int k = 1; k < argc; ++k) {
    const std::string argument = argv[k];
    const std::size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : argument.substr(equals + 1);
    if (name == "--instances") {
      options.instances = number_of(value);
    } else if (name == "--first") {
      options.first = number_of(value);
    } else if (name == "--evaluations") {
      options.evaluations = number_of(value);
    } else if (name == "--weights") {
      options.weights = value;
    } else if (name == "--data") {
      options.data.push_back(value);
    } else {
      fail_option("{}: allowed are --instances=, --first=, --evaluations=, --weights=, --data=",
                  argument);
    }
  }
  return options;
}

}  // namespace
}  // namespace atl

int main(int argc, char** argv) {
  try {
    return atl::run(atl::parse(argc, argv));
  } catch (const atl::Error& error) {
    fmt::print(stderr, "bench_policy: error: {}\n", error.what());
    return error.exit_code();
  }
}
