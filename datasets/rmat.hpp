// Recursive matrix graphs (Chakrabarti, Zhan, Faloutsos, "R-MAT", SDM'04) as used by Graph500:
// edges as a function of their index. Internal to datasets/.
#pragma once

#include <cstdint>
#include <vector>

#include "datasets/edge_sampler.hpp"

namespace atl {

class RmatGraph {
 public:
  // Chances a, b, c of the upper left, upper right and lower left quarter; the fourth is the rest.
  // Throws Error{kOption} unless all four are in [0, 1]. Node ids are shuffled.
  RmatGraph(std::int64_t nodes, double a, double b, double c, std::uint64_t seed);
  Edge edge(std::uint64_t index) const;

 private:
  std::uint32_t quarter_end_[3];  // cumulative chances in units of 2^-16
  std::uint32_t levels_ = 0;
  RandomKey key_;
  std::vector<std::int32_t> order_;
};

}  // namespace atl
