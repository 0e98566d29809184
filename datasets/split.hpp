// Makes train / valid / test splits for sets that come without one.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace atl {

// How to split: by shares of the labelled nodes, or so many training nodes per class and then so
// many validation and test nodes in all.
struct SplitSpec {
  bool per_class = false;
  std::array<double, 3> amount{};  // train, valid, test: shares, or counts if per_class
};

// "0.6,0.2,0.2" or "per-class:20,500,1000"; throws Error{kOption} naming the value.
SplitSpec parse_split(const std::string& text);

// One entry per node: 0 train, 1 valid, 2 test, 255 none. Nodes with labelled[i] == 0 get none; the
// order in which the others are drawn depends on `seed` and node ids only. `labels` (one per node)
// is needed per class only. Throws Error{kOption} if there are too few nodes.
std::vector<std::uint8_t> make_split(const SplitSpec& spec, std::span<const std::uint8_t> labelled,
                                     std::span<const std::int32_t> labels, std::uint64_t seed);
// The same with numbers of nodes.
std::vector<std::uint8_t> make_split(const std::array<std::int64_t, 3>& counts,
                                     std::span<const std::uint8_t> labelled, std::uint64_t seed);

}  // namespace atl
