// The cost of sending bytes over one link, and its fit to measured times.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace atl {

// One packet of n > 0 bytes takes gamma_s + theta_s_per_byte * n seconds. Neither is negative.
struct LinkCost {
  double theta_s_per_byte = 0;
  double gamma_s = 0;
  double seconds(std::int64_t bytes) const {
    return gamma_s + theta_s_per_byte * static_cast<double>(bytes);
  }
};

// When a link's packet has come and the work that hides it is done. Carrying bytes slows that work
// down, because it takes processors and memory from it.
struct LinkTime {
  LinkCost wire;
  LinkCost cover;
  double seconds(std::int64_t bytes) const {
    return std::max(wire.seconds(bytes), cover.seconds(bytes));
  }
};

// Measured on one link while all links were in use: the median over repetitions of one size.
struct LinkSample {
  std::int64_t bytes = 0;
  double seconds = 0;
};

struct LinkCostFit {
  LinkCost cost;
  double worst_relative_residual = 0;  // |fitted - measured| / measured, over all samples
  int outliers = 0;                    // samples that the fit left out
};

// Least squares of relative residuals under theta, gamma >= 0, over the samples within 25 % of a
// first line, the one with the least sum of relative deviations of which each counts 25 % at most;
// over all samples where that leaves no majority.
// Sizes that are all equal can't tell theta from gamma: all time is theta's then. No samples: a
// cost of 0. A time counts as 1 ns at least. Takes the third power of the number of samples: meant
// for tens of sizes.
LinkCostFit fit_link_cost(std::span<const LinkSample> samples);

}  // namespace atl
