// The factor of a column in batch norm, which has to tell a constant column from a narrow one.
#pragma once

#include <cmath>

#include "base/philox.hpp"

namespace atl {

// A column whose standard deviation is below this part of its mean is constant but for rounding:
// 2^-20 is 16 times the rounding of an f32, and the sums behind its values round a few times.
inline constexpr double kRoundingSpread = 0x1p-20;

// 1 / sqrt(variance + epsilon), or 0 of a column that is constant but for rounding: it gives beta
// and passes no gradient on, as its exact values would. 1 / sqrt(epsilon) would make numbers of the
// order of 1e-4 of its rounding in each norm, which differ from one number of ranks to another.
ATOLL_HOST_DEVICE inline double inverse_deviation(double mean, double variance, double epsilon) {
  const double rounding = kRoundingSpread * mean;
  if (variance < rounding * rounding) return 0;
  return 1 / std::sqrt(variance + epsilon);
}

}  // namespace atl
