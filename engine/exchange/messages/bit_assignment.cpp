#include "engine/exchange/messages/bit_assignment.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "engine/exchange/messages/link_budget.hpp"

namespace atl {

namespace {

constexpr int kRounds = 5;
constexpr int kCells = 32;  // of a round's grid; the next round's spans two of them
// Candidates: the relaxed optimum, a grid over all T, and ever nearer ones on both sides of it.
constexpr int kWideCells = 32;
constexpr int kNearSteps = 18;
constexpr int kCandidates = 1 + (kWideCells + 1) + 2 * kNearSteps;

// A term of the objective; its weight is lambda or 1 - lambda.
double term(double weight, double value, double divisor) {
  return divisor > 0 ? weight * (value / divisor) : 0.0;
}

// One channel during the search. T is the time of the wire, central work included.
struct SearchedChannel {
  ChoiceHull hull;
  std::vector<LinkBudget> links;
  // Over all ranks.
  double least_t = 0, most_t = 0;  // T at the choices of fewest and of most bytes
  double quantize_s = 0;
  double exact_s = 0;  // at the last choice
  double unit_time = 0, unit_variance = 0;
  // The interval that holds the relaxed optimum.
  double low = 0, high = 0;
  double best_t = 0;
  double relaxed_bound = 0;
};

double seconds_at(const ChannelProblem& problem, const TravelCost& choice) {
  double seconds = problem.central_s;
  for (const LinkProblem& link : problem.links) {
    if (link.beta.empty()) continue;
    const auto messages = static_cast<std::int64_t>(link.beta.size());
    seconds = std::max(seconds, link.cost.seconds(messages * choice.bytes));
  }
  return seconds;
}

class Search {
 public:
  Search(std::span<const ChannelProblem> problems, double lambda, const RankReductions& ranks)
      : problems_(problems), lambda_(lambda), ranks_(ranks), channels_(problems.size()) {}

  std::vector<ChannelAssignment> run() {
    sort_messages();
    agree_on_scales();
    for (int round = 0; round < kRounds; ++round) refine();
    return choose();
  }

 private:
  void sort_messages();
  void agree_on_scales();
  void refine();
  void take_round(SearchedChannel& channel, const double* sums);
  std::vector<ChannelAssignment> choose();
  ChannelAssignment choose_one(std::size_t c, const double* variances, const double* times) const;

  double objective(const SearchedChannel& channel, double variance, double seconds) const {
    return term(lambda_, variance, channel.unit_variance) +
           term(1 - lambda_, seconds, channel.unit_time);
  }
  void sum(std::vector<double>& values) const {
    if (ranks_.sum) ranks_.sum(values);
  }
  void max(std::vector<double>& values) const {
    if (ranks_.max) ranks_.max(values);
  }

  std::span<const ChannelProblem> problems_;
  double lambda_;
  const RankReductions& ranks_;
  std::vector<SearchedChannel> channels_;
};

void Search::sort_messages() {
  for (std::size_t c = 0; c < channels_.size(); ++c) {
    const ChannelProblem& problem = problems_[c];
    ATOLL_ASSERT(problem.choices.back().variance == 0);
    channels_[c].hull = make_hull(problem.choices);
    channels_[c].links.reserve(problem.links.size());
    for (const LinkProblem& link : problem.links) {
      channels_[c].links.emplace_back(link, channels_[c].hull);
    }
  }
}

void Search::agree_on_scales() {
  std::vector<double> most, sums;
  for (std::size_t c = 0; c < channels_.size(); ++c) {
    const ChannelProblem& problem = problems_[c];
    double least_t = problem.central_s, most_t = problem.central_s, beta_sum = 0;
    for (const LinkBudget& link : channels_[c].links) {
      least_t = std::max(least_t, link.least_seconds());
      most_t = std::max(most_t, link.most_seconds());
      beta_sum += link.beta_sum();
    }
    const double exact_s = seconds_at(problem, problem.choices.back());
    most.insert(
        most.end(),
        {least_t, most_t, problem.quantize_s, exact_s,
         problem.unit_time ? seconds_at(problem, problem.choices[*problem.unit_time]) : exact_s});
    sums.push_back(problem.unit_variance.value_or(beta_sum * problem.choices.front().variance));
  }
  max(most);
  sum(sums);
  for (std::size_t c = 0; c < channels_.size(); ++c) {
    SearchedChannel& channel = channels_[c];
    const double* mine = &most[5 * c];
    channel.least_t = channel.low = mine[0];
    channel.most_t = channel.high = mine[1];
    channel.quantize_s = mine[2];
    channel.exact_s = mine[3];
    channel.unit_time = mine[4];
    channel.unit_variance = sums[c];
  }
}

using Grid = std::array<double, kCells + 1>;

Grid make_grid(const SearchedChannel& channel) {
  Grid points;
  for (int i = 0; i < kCells; ++i) {
    points[i] = channel.low + (channel.high - channel.low) * (static_cast<double>(i) / kCells);
  }
  points[kCells] = channel.high;
  return points;
}

void Search::refine() {
  constexpr std::size_t kNumbers = 2 * (kCells + 1);  // variance and slope of each point
  std::vector<double> sums(kNumbers * channels_.size(), 0.0);
  for (std::size_t c = 0; c < channels_.size(); ++c) {
    const Grid points = make_grid(channels_[c]);
    for (const LinkBudget& link : channels_[c].links) {
      double* value = &sums[c * kNumbers];
      for (const LinkBudget::Relaxed& relaxed : link.relax(points)) {
        *value++ += relaxed.variance;
        *value++ += relaxed.slope;
      }
    }
  }
  sum(sums);
  for (std::size_t c = 0; c < channels_.size(); ++c) take_round(channels_[c], &sums[c * kNumbers]);
}

// The least value of a convex function between two points, by the tangents there.
double bound_of_cell(double left, double left_slope, double right, double right_slope,
                     double width) {
  if (left_slope >= 0) return left;
  if (right_slope <= 0) return right;
  const double place = (left - right + right_slope * width) / (right_slope - left_slope);
  return left + left_slope * std::clamp(place, 0.0, width);
}

void Search::take_round(SearchedChannel& channel, const double* sums) {
  const Grid points = make_grid(channel);
  Grid values, slopes;
  int best = 0;
  for (int i = 0; i <= kCells; ++i) {
    values[i] = objective(channel, sums[2 * i], points[i]);
    slopes[i] = objective(channel, sums[2 * i + 1], 1.0);
    if (values[i] < values[best]) best = i;
  }
  double bound = values[best];
  for (int i = 0; i < kCells; ++i) {
    bound = std::min(bound, bound_of_cell(values[i], slopes[i], values[i + 1], slopes[i + 1],
                                          points[i + 1] - points[i]));
  }
  // Each round's bound holds by itself: the optimum lies inside its interval.
  channel.relaxed_bound = std::max(channel.relaxed_bound, bound);
  channel.best_t = points[best];
  channel.low = points[std::max(best - 1, 0)];
  channel.high = points[std::min(best + 1, kCells)];
}

// Times at which whole messages are tried. Rounding wastes part of a link's bytes, so a T somewhat
// beside the relaxed optimum can be better; with few messages, far beside it. They rise.
std::vector<double> candidates(const SearchedChannel& channel) {
  const double range = channel.most_t - channel.least_t;
  std::vector<double> times = {channel.best_t};
  for (int k = 0; k < kWideCells; ++k) {
    times.push_back(channel.least_t + range * (static_cast<double>(k) / kWideCells));
  }
  times.push_back(channel.most_t);
  for (int k = 0; k < kNearSteps; ++k) {
    const double distance = std::ldexp(range, -k - 4);
    times.push_back(std::max(channel.best_t - distance, channel.least_t));
    times.push_back(std::min(channel.best_t + distance, channel.most_t));
  }
  std::ranges::sort(times);
  return times;
}

std::vector<ChannelAssignment> Search::choose() {
  std::vector<double> variances(kCandidates * channels_.size(), 0.0);
  std::vector<double> times(kCandidates * channels_.size(), 0.0);
  for (std::size_t c = 0; c < channels_.size(); ++c) {
    const std::vector<double> tried = candidates(channels_[c]);
    double* variance = &variances[c * kCandidates];
    double* seconds = &times[c * kCandidates];
    std::fill_n(seconds, kCandidates, problems_[c].central_s);
    for (const LinkBudget& link : channels_[c].links) {
      const auto rounded = link.round(tried);
      for (int i = 0; i < kCandidates; ++i) {
        variance[i] += rounded[i].variance;
        seconds[i] = std::max(seconds[i], rounded[i].seconds);
      }
    }
  }
  sum(variances);
  max(times);
  std::vector<ChannelAssignment> assignments;
  for (std::size_t c = 0; c < channels_.size(); ++c) {
    assignments.push_back(choose_one(c, &variances[c * kCandidates], &times[c * kCandidates]));
  }
  return assignments;
}

ChannelAssignment Search::choose_one(std::size_t c, const double* variances,
                                     const double* times) const {
  const SearchedChannel& channel = channels_[c];
  ChannelAssignment best{.chosen = {},
                         .variance = 0,
                         .time_s = channel.exact_s,
                         .objective = objective(channel, 0, channel.exact_s),
                         .bound = 0};
  best.bound =
      std::min(best.objective, channel.relaxed_bound + objective(channel, 0, channel.quantize_s));
  int chosen = -1;
  for (int i = 0; i < kCandidates; ++i) {
    const double seconds = times[i] + channel.quantize_s;
    const double value = objective(channel, variances[i], seconds);
    if (value < best.objective || (value == best.objective && variances[i] < best.variance)) {
      chosen = i;
      best.objective = value;
      best.variance = variances[i];
      best.time_s = seconds;
    }
  }
  best.bound = std::min(best.bound, best.objective);  // equal but for rounding
  for (std::size_t l = 0; l < channel.links.size(); ++l) {
    if (chosen < 0) {
      const auto last = static_cast<std::uint8_t>(problems_[c].choices.size() - 1);
      best.chosen.emplace_back(problems_[c].links[l].beta.size(), last);
    } else {
      const LinkBudget& link = channel.links[l];
      const double seconds = candidates(channel)[chosen];
      best.chosen.push_back(link.chosen(link.round({&seconds, 1}).front().taken));
    }
  }
  return best;
}

}  // namespace

std::vector<ChannelAssignment> assign_bits(std::span<const ChannelProblem> channels, double lambda,
                                           const RankReductions& ranks) {
  ATOLL_ASSERT(lambda >= 0 && lambda <= 1);
  return Search(channels, lambda, ranks).run();
}

}  // namespace atl
