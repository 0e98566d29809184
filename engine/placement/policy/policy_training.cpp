#include "engine/placement/policy/policy_training.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "base/error.hpp"
#include "engine/placement/policy/policy_prior.hpp"
#include "engine/placement/random_draws.hpp"

namespace atl {

namespace {

constexpr double kTolerance = 0.01;   // of search_target: a gap that halves a share is 0.7 of it
constexpr double kRootNoise = 0.25;   // as AlphaGo Zero has it
constexpr double kOtherOption = 0.2;  // decisions after which play goes on from a worse plan

// A space whose first decisions are taken; remembers the best plan by option of the next one.
class RestOfSpace final : public SearchSpace {
 public:
  RestOfSpace(PlanSpace& space, std::vector<int> taken)
      : space_(space),
        taken_(std::move(taken)),
        first_(static_cast<int>(taken_.size())),
        best_(static_cast<std::size_t>(space.options(first_))) {}

  int decisions() const override { return space_.decisions() - first_; }
  int options(int d) const override { return space_.options(first_ + d); }
  std::vector<int> start() const override {
    const std::vector<int> full = inherit(space_, space_.start(), taken_);
    return {full.begin() + first_, full.end()};
  }
  int model_of(int d) const override {
    const int model = space_.model_of(first_ + d);
    return model < first_ ? -1 : model - first_;
  }
  PlanCost evaluate(std::span<const int> choice) override {
    std::vector<int> full = taken_;
    full.insert(full.end(), choice.begin(), choice.end());
    const PlanCost cost = space_.evaluate(full);
    std::optional<PlanCost>& best = best_[static_cast<std::size_t>(choice[0])];
    if (!best || is_better(cost, *best)) best = cost;
    return cost;
  }

  PlanSpace& whole() { return space_; }
  std::vector<int> taken_with(std::span<const int> chosen) const {
    std::vector<int> all = taken_;
    all.insert(all.end(), chosen.begin(), chosen.end());
    return all;
  }
  const std::vector<std::optional<PlanCost>>& best() const { return best_; }

 private:
  PlanSpace& space_;
  std::vector<int> taken_;
  int first_;
  std::vector<std::optional<PlanCost>> best_;
};

// The policy in a RestOfSpace, with noise at its root so that no option is never tried.
Prior noisy_prior(const Prior& policy, RestOfSpace& rest, RandomDraws& draws) {
  return [&](SearchSpace&, std::span<const int> chosen, int decision) {
    const std::vector<int> all = rest.taken_with(chosen);
    std::vector<double> prior = policy(rest.whole(), all, static_cast<int>(all.size()));
    if (decision > 0) return prior;
    // A flat Dirichlet distribution: shares of exponential variables.
    std::vector<double> noise;
    for (std::size_t k = 0; k < prior.size(); ++k) noise.push_back(-std::log(1 - draws.unit()));
    const double sum = std::reduce(noise.begin(), noise.end());
    for (std::size_t k = 0; k < prior.size(); ++k) {
      prior[k] = (1 - kRootNoise) * prior[k] + kRootNoise * noise[k] / sum;
    }
    return prior;
  };
}

int greatest_of(const std::vector<double>& shares) {
  return static_cast<int>(std::ranges::max_element(shares) - shares.begin());
}

double entropy(const std::vector<double>& shares) {
  double sum = 0;
  for (const double p : shares) sum -= p > 0 ? p * std::log(p) : 0;
  return sum;
}

}  // namespace

std::vector<double> search_target(const std::vector<std::optional<PlanCost>>& best) {
  const PlanCost* least = nullptr;
  for (const auto& cost : best) {
    if (cost && (least == nullptr || is_better(*cost, *least))) least = &*cost;
  }
  ATOLL_ASSERT(least != nullptr, "no option was tried");
  std::vector<double> shares;
  for (const auto& cost : best) {
    if (!cost || cost->missing_bytes > least->missing_bytes) {
      shares.push_back(0);
    } else {
      const double gap = least->seconds > 0 ? cost->seconds / least->seconds - 1 : 0;
      shares.push_back(std::exp(-gap / kTolerance));
    }
  }
  const double sum = std::reduce(shares.begin(), shares.end());
  for (double& value : shares) value /= sum;
  return shares;
}

std::vector<PolicySample> play(PlanSpace& space, PolicyNetwork* network,
                               const PolicyTrainingOptions& options, std::uint64_t seed) {
  RandomDraws draws(seed);
  space.evaluate(space.start());
  const PolicyGraphMaker maker(space);
  const Prior policy = network == nullptr ? uniform_prior : policy_prior(space, *network);
  std::vector<PolicySample> samples;
  std::vector<int> taken;
  while (static_cast<int>(taken.size()) < space.decisions()) {
    const int decision = static_cast<int>(taken.size());
    if (space.options(decision) == 1) {
      taken.push_back(0);
      continue;
    }
    RestOfSpace rest(space, taken);
    search("mcts", rest,
           {.evaluations = options.evaluations,
            .seed = seed + static_cast<unsigned>(decision),
            .prior = noisy_prior(policy, rest, draws)});
    PolicySample sample{maker.make(taken, decision), search_target(rest.best())};
    const int best = greatest_of(sample.target);
    const int other = draws.below(space.options(decision));
    taken.push_back(draws.chance(kOtherOption) ? other
                    : draws.chance(0.5)        ? best
                                               : draws.by_share(sample.target));
    samples.push_back(std::move(sample));
  }
  return samples;
}

PolicyProgress train_epoch(PolicyNetwork& network, const std::vector<PolicySample>& samples,
                           const PolicyTrainingOptions& options, std::uint64_t seed, int& step) {
  RandomDraws draws(seed);
  std::vector<std::size_t> order(samples.size());
  std::iota(order.begin(), order.end(), 0U);
  draws.shuffle(order);
  const OptimizerConfig adam{.learning_rate = options.learning_rate, .weight_decay = 1e-5};
  PolicyProgress progress{.samples = static_cast<int>(samples.size())};
  const auto batch = static_cast<std::size_t>(options.batch);
  for (std::size_t first = 0; first < order.size(); first += batch) {
    const std::size_t last = std::min(order.size(), first + batch);
    const double weight = 1.0 / static_cast<double>(last - first);
    for (std::size_t k = first; k < last; ++k) {
      const PolicySample& sample = samples[order[k]];
      const PolicyNetwork::Outcome outcome =
          network.add_gradient(sample.graph, sample.target, weight);
      progress.loss += outcome.loss / weight - entropy(sample.target);
      progress.accuracy += greatest_of(outcome.probabilities) == greatest_of(sample.target) ? 1 : 0;
    }
    network.step(adam, ++step);
  }
  const double count = std::max(1.0, static_cast<double>(samples.size()));
  progress.loss /= count;
  progress.accuracy /= count;
  return progress;
}

int train_policy(PolicyNetwork& network, const PolicyTrainingOptions& options,
                 const PolicyObserver& observer) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point began = Clock::now();
  const auto out_of_time = [&] {
    return options.seconds > 0 &&
           std::chrono::duration<double>(Clock::now() - began).count() >= options.seconds;
  };
  RandomDraws seeds(options.seed);
  const auto next_seed = [&] { return static_cast<std::uint64_t>(seeds.unit() * 0x1p53); };
  std::vector<PolicySample> samples;
  int step = 0, made = 0;
  for (int round = 0; round < options.rounds && !(out_of_time() && made > 0); ++round) {
    // In the first round there is no policy yet.
    PolicyNetwork* player = round == 0 && !options.trained_before ? nullptr : &network;
    const int wanted = options.instances * (round + 1) / options.rounds;
    for (; made < wanted && !(out_of_time() && made > 0); ++made) {
      const auto instance = random_instance(InstanceRanges{}, next_seed());
      for (PolicySample& sample : play(*instance->space, player, options, next_seed())) {
        samples.push_back(std::move(sample));
      }
    }
    for (int epoch = 0; epoch < options.epochs; ++epoch) {
      PolicyProgress progress = train_epoch(network, samples, options, next_seed(), step);
      progress.round = round;
      progress.epoch = epoch;
      if (observer) observer(progress);
    }
  }
  return static_cast<int>(samples.size());
}

}  // namespace atl
