// Confidence intervals of means of few numbers.
#pragma once

#include <optional>
#include <span>

namespace atl {

// The t with P(|T| < t) = confidence of Student's distribution with nu >= 1 degrees of freedom.
double student_t(int nu, double confidence);

struct MeanInterval {
  std::optional<double> mean;        // empty: of no numbers
  std::optional<double> half_width;  // empty: of fewer than two
};
// The mean of independent numbers, and its confidence interval if they are normally distributed.
MeanInterval mean_interval(std::span<const double> values, double confidence = 0.95);

// Empty for no numbers.
std::optional<double> mean_of(std::span<const double> values);
// With one less than their number in the denominator; empty for fewer than two.
std::optional<double> standard_deviation(std::span<const double> values);

}  // namespace atl
