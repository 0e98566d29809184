// Weights as METIS can add them up.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "partition/partitioner.hpp"

namespace atl {

// Divides weights that sum to more than kMostWeight, so that they don't. One above 0 stays so.
template <typename Weight>
void scale_to_int32(std::vector<Weight>& weights) {
  const std::int64_t sum = std::accumulate(weights.begin(), weights.end(), std::int64_t{0});
  if (sum <= kMostWeight) return;
  const auto count = static_cast<std::int64_t>(weights.size());
  const std::int64_t divisor = sum / std::max<std::int64_t>(1, kMostWeight - count) + 1;
  for (Weight& weight : weights) {
    weight = static_cast<Weight>((weight + divisor - 1) / divisor);
  }
}

}  // namespace atl
