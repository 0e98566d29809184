#include "launch/jobs/student_t.hpp"

#include <cmath>
#include <numbers>

namespace atl {

namespace {

// The integral of cos^(nu - 1) from 0 to theta over that from 0 to pi / 2, which is the probability
// that |T| < sqrt(nu) tan(theta) (Abramowitz and Stegun, 26.7.3 and 26.7.4). By parts, down to cos
// or 1.
double cosine_share(int nu, double theta) {
  const int power = nu - 1;
  const bool even = power % 2 == 0;
  double partial = even ? theta : std::sin(theta);
  double whole = even ? std::numbers::pi / 2 : 1;
  for (int n = even ? 2 : 3; n <= power; n += 2) {
    const double rest = (n - 1.0) / n;
    partial = std::pow(std::cos(theta), n - 1) * std::sin(theta) / n + rest * partial;
    whole *= rest;
  }
  return partial / whole;
}

}  // namespace

double student_t(int nu, double confidence) {
  double low = 0;
  double high = std::numbers::pi / 2;
  for (int step = 0; step < 100; ++step) {
    const double middle = (low + high) / 2;
    (cosine_share(nu, middle) < confidence ? low : high) = middle;
  }
  return std::sqrt(nu) * std::tan(low);
}

std::optional<double> mean_of(std::span<const double> values) {
  if (values.empty()) return std::nullopt;
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

std::optional<double> standard_deviation(std::span<const double> values) {
  if (values.size() < 2) return std::nullopt;
  const double mean = *mean_of(values);
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

MeanInterval mean_interval(std::span<const double> values, double confidence) {
  MeanInterval interval{mean_of(values), standard_deviation(values)};
  if (interval.half_width) {
    const int nu = static_cast<int>(values.size()) - 1;
    *interval.half_width *=
        student_t(nu, confidence) / std::sqrt(static_cast<double>(values.size()));
  }
  return interval;
}

}  // namespace atl
