// How far the numbers of a regression lie apart, over the nodes of all ranks: what R2 compares
// with.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/comm/transport.hpp"

namespace atl {

// Labels of train, valid and test nodes, per number: how many there are, and the sum of their
// squared distances from their mean. [3 * columns], split by split.
struct LabelSpread {
  std::vector<double> count;
  std::vector<double> squares;
};

// use(place, k) for every label of a split: `place` in LabelSpread, `k` in `labels`, which are
// [rows, columns] with NaN = none; split: [rows].
template <typename Use>
void for_labels(std::span<const float> labels, std::span<const std::uint8_t> split,
                std::int64_t columns, const Use& use) {
  const auto width = static_cast<std::size_t>(columns);
  for (std::size_t i = 0; i < split.size(); ++i) {
    if (split[i] > 2) continue;
    for (std::size_t c = 0; c < width; ++c) {
      if (!std::isnan(labels[i * width + c])) use(split[i] * width + c, i * width + c);
    }
  }
}

// Sums in double, first for the means, then of distances from them, so that labels far from 0 lose
// nothing. Collective.
LabelSpread label_spread(std::span<const float> labels, std::span<const std::uint8_t> split,
                         std::int64_t columns, Transport& transport);

}  // namespace atl
