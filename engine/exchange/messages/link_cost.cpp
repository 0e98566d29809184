#include "engine/exchange/messages/link_cost.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace atl {

namespace {

// A sample divided by its time: theta * slope + gamma * offset should be 1.
struct Equation {
  double slope = 0;
  double offset = 0;
  double ratio(const LinkCost& cost) const {
    return cost.theta_s_per_byte * slope + cost.gamma_s * offset;
  }
  double residual(const LinkCost& cost) const { return ratio(cost) - 1; }
  // As far from 0 for a time that is five times too short as for one five times too long.
  double deviation(const LinkCost& cost) const { return std::abs(std::log(ratio(cost))); }
};

bool allowed(const LinkCost& cost) {
  return std::isfinite(cost.theta_s_per_byte) && std::isfinite(cost.gamma_s) &&
         cost.theta_s_per_byte >= 0 && cost.gamma_s >= 0;
}

LinkCost through(const Equation& a, const Equation& b) {
  const double determinant = a.slope * b.offset - b.slope * a.offset;
  return {.theta_s_per_byte = (b.offset - a.offset) / determinant,
          .gamma_s = (a.slope - b.slope) / determinant};
}

double sum_of_squares(std::span<const Equation> equations, const LinkCost& cost) {
  double sum = 0;
  for (const Equation& equation : equations) {
    sum += equation.residual(cost) * equation.residual(cost);
  }
  return sum;
}

// The first of those that are least but for rounding, so that ties always end the same way.
template <typename Measure>
LinkCost least_of(const std::vector<LinkCost>& candidates, Measure measure) {
  LinkCost best;
  double least = std::numeric_limits<double>::infinity();
  for (const LinkCost& cost : candidates) {
    if (!allowed(cost)) continue;
    const double value = measure(cost);
    if (value < (1 - 1e-9) * least) {
      least = value;
      best = cost;
    }
  }
  return best;
}

// A sample that is further off is an outlier: medians of one size scatter less. All such count the
// same, so that one sample can't pull the line, however wrong it is.
constexpr double kOutlierDeviation = 0.25;

double sum_of_deviations(std::span<const Equation> equations, const LinkCost& cost) {
  double sum = 0;
  for (const Equation& equation : equations) {
    sum += std::min(equation.deviation(cost), kOutlierDeviation);
  }
  return sum;
}

// Tried are the lines through any two samples, and through one with theta or gamma 0.
LinkCost robust_line(std::span<const Equation> equations) {
  std::vector<LinkCost> candidates;
  for (std::size_t i = 0; i < equations.size(); ++i) {
    candidates.push_back({.theta_s_per_byte = 1 / equations[i].slope, .gamma_s = 0});
    candidates.push_back({.theta_s_per_byte = 0, .gamma_s = 1 / equations[i].offset});
    for (std::size_t j = 0; j < i; ++j) candidates.push_back(through(equations[i], equations[j]));
  }
  return least_of(candidates,
                  [&](const LinkCost& cost) { return sum_of_deviations(equations, cost); });
}

// The optimum is where the gradient is 0, or on one of the borders.
LinkCost least_squares(std::span<const Equation> equations) {
  double ss = 0, so = 0, oo = 0, s = 0, o = 0;
  for (const Equation& e : equations) {
    ss += e.slope * e.slope;
    so += e.slope * e.offset;
    oo += e.offset * e.offset;
    s += e.slope;
    o += e.offset;
  }
  std::vector<LinkCost> candidates = {{.theta_s_per_byte = s / ss, .gamma_s = 0},
                                      {.theta_s_per_byte = 0, .gamma_s = o / oo}};
  const double determinant = ss * oo - so * so;
  // Below this the sizes are equal, or as good as equal, and what is left is rounding.
  if (determinant > 1e-12 * ss * oo) {
    candidates.push_back({.theta_s_per_byte = (s * oo - o * so) / determinant,
                          .gamma_s = (o * ss - s * so) / determinant});
  }
  return least_of(candidates,
                  [&](const LinkCost& cost) { return sum_of_squares(equations, cost); });
}

}  // namespace

LinkCostFit fit_link_cost(std::span<const LinkSample> samples) {
  constexpr double kLeastSeconds = 1e-9;
  std::vector<Equation> equations;
  for (const LinkSample& sample : samples) {
    const double seconds = std::max(sample.seconds, kLeastSeconds);
    equations.push_back(
        {.slope = static_cast<double>(sample.bytes) / seconds, .offset = 1 / seconds});
  }
  if (equations.empty()) return {};
  const LinkCost line = robust_line(equations);
  std::vector<Equation> kept;
  for (const Equation& equation : equations) {
    if (equation.deviation(line) <= kOutlierDeviation) kept.push_back(equation);
  }
  // Times that follow no line: none of them can be called wrong.
  if (2 * kept.size() <= equations.size()) kept = equations;
  LinkCostFit fit{.cost = least_squares(kept),
                  .outliers = static_cast<int>(equations.size() - kept.size())};
  for (const Equation& equation : equations) {
    fit.worst_relative_residual =
        std::max(fit.worst_relative_residual, std::abs(equation.residual(fit.cost)));
  }
  return fit;
}

}  // namespace atl
