// The best choices for the messages of one link for a given number of bytes.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/exchange/messages/bit_assignment.hpp"

namespace atl {

// From one choice to the next one of more bytes that is worth having.
struct ChoiceStep {
  std::int64_t bytes = 0;
  double variance = 0;      // saved, per unit of beta
  double gain = 0;          // variance / bytes
  std::uint8_t choice = 0;  // that it leads to
};

// The choices on the lower convex hull of (bytes, variance), fewest bytes first: all others cost
// more of one for the same of the other than a mixture of these. Gains fall strictly from step to
// step.
struct ChoiceHull {
  std::uint8_t least = 0;
  std::int64_t least_bytes = 0;
  std::vector<ChoiceStep> steps;
};
ChoiceHull make_hull(std::span<const TravelCost> choices);

// How many messages take each step of the hull: those of largest beta. Never rises with the step.
using StepCounts = std::array<std::int64_t, kMostChoices - 1>;

// The messages of one link in falling order of beta, equal ones in the order given.
class LinkBudget {
 public:
  // `hull` must outlive it.
  LinkBudget(const LinkProblem& link, const ChoiceHull& hull);

  // All messages at the choice of fewest or of most bytes of the hull.
  double least_seconds() const;
  double most_seconds() const;
  double beta_sum() const { return tail_[0]; }

  // The least variance if choices could be mixed within a message and the link may take `seconds`,
  // and the slope of its graph at that place or right of it; the graph is convex and doesn't rise.
  // For several times at once, which rise.
  struct Relaxed {
    double variance = 0;
    double slope = 0;  // per second
  };
  std::vector<Relaxed> relax(std::span<const double> seconds) const;

  // Whole messages that take at most `seconds`: in the order of gain until one doesn't fit, then
  // the largest steps that do. For several times, which rise.
  struct Rounded {
    StepCounts taken{};
    double variance = 0;
    double seconds = 0;
  };
  std::vector<Rounded> round(std::span<const double> seconds) const;

  // The choice of each message, in the order given.
  std::vector<std::uint8_t> chosen(const StepCounts& taken) const;

 private:
  std::vector<StepCounts> longest_prefixes(const std::vector<double>& bytes) const;
  StepCounts longest_prefix(double bytes, StepCounts low, StepCounts high) const;
  double next_gain(const StepCounts& taken) const;
  void fill(StepCounts& taken, std::int64_t room) const;
  std::int64_t bytes_within(double seconds) const;
  std::int64_t bytes_of(const StepCounts& taken) const;
  double variance_of(const StepCounts& taken) const;

  LinkTime cost_;
  const ChoiceHull& hull_;
  std::vector<std::uint32_t> order_;  // [messages] place in the order given
  std::vector<float> beta_;           // [messages that aren't 0] falling
  std::vector<double> tail_;          // [messages + 1] sum of the betas from here on
};

}  // namespace atl
