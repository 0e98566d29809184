#include "datasets/rmat.hpp"

#include <bit>
#include <cmath>

#include "base/error.hpp"

namespace atl {

RmatGraph::RmatGraph(std::int64_t nodes, double a, double b, double c, std::uint64_t seed)
    : key_(generator_key(seed, GeneratorPurpose::kEdges)), order_(random_order(nodes, seed)) {
  if (!(a > 0 && b >= 0 && c >= 0 && a + b + c <= 1)) {
    fail_option(
        "rmat chances a {}, b {}, c {}: a must be positive, b and c 0 or more, their sum at "
        "most 1",
        a, b, c);
  }
  const double ends[3] = {a, a + b, a + b + c};
  for (int i = 0; i < 3; ++i) {
    quarter_end_[i] = static_cast<std::uint32_t>(std::lround(ends[i] * 65536));
  }
  levels_ = static_cast<std::uint32_t>(std::bit_width(static_cast<std::uint64_t>(nodes - 1)));
}

// One quarter per level, from 16 random bits each. An end beyond the last node (where the number of
// nodes is no power of two) draws the whole edge again.
Edge RmatGraph::edge(std::uint64_t index) const {
  constexpr std::uint32_t kPerBlock = 8;
  const std::uint32_t blocks = (levels_ + kPerBlock - 1) / kPerBlock;
  const auto nodes = static_cast<std::int64_t>(order_.size());
  for (std::uint32_t attempt = 0;; ++attempt) {
    std::int64_t row = 0;
    std::int64_t column = 0;
    PhiloxBlock block{};
    for (std::uint32_t level = 0; level < levels_; ++level) {
      const std::uint32_t lane = level % kPerBlock;
      if (lane == 0) block = random_block(key_, index, attempt * blocks + level / kPerBlock);
      const std::uint32_t draw = dropout_half_word(block, lane);
      row = 2 * row + (draw >= quarter_end_[1] ? 1 : 0);
      const bool right =
          draw >= quarter_end_[2] || (draw >= quarter_end_[0] && draw < quarter_end_[1]);
      column = 2 * column + (right ? 1 : 0);
    }
    if (row < nodes && column < nodes) return {order_[row], order_[column]};
  }
}

}  // namespace atl
