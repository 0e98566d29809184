// A random order, the same wherever it is drawn.
#pragma once

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "base/philox.hpp"

namespace atl {

// 0 to count - 1, shuffled (Fisher and Yates): each draw is a pure function of key and position.
inline std::vector<std::int32_t> random_permutation(std::int64_t count, const RandomKey& key) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = order.size(); i > 1; --i) {
    const std::uint64_t bits = random_bits(key, i, 0);
    std::swap(order[i - 1], order[(bits * i) >> 32U]);
  }
  return order;
}

}  // namespace atl
