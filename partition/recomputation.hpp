// Boundary recomputation: which ranks compute rows of which other ranks themselves instead of
// receiving them (docs/placement.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/json.hpp"

namespace atl {

// For every pair of ranks whether one computes what it needs of the other's rows of the first
// layer's output. What that takes, the kept aggregates of these rows, it receives once.
class Recomputation {
 public:
  Recomputation() = default;  // nobody does
  explicit Recomputation(int ranks);
  static Recomputation of_all_pairs(int ranks);

  int ranks() const { return ranks_; }
  bool any() const;
  bool computes(int rank, int owner) const { return ranks_ > 0 && pairs_[index(rank, owner)] != 0; }
  void set(int rank, int owner) { pairs_[index(rank, owner)] = 1; }
  bool operator==(const Recomputation&) const = default;

 private:
  std::size_t index(int rank, int owner) const {
    return static_cast<std::size_t>(rank) * static_cast<std::size_t>(ranks_) +
           static_cast<std::size_t>(owner);
  }
  int ranks_ = 0;
  std::vector<std::uint8_t> pairs_;  // [rank * ranks + owner]
};

// By rank the list of owners; null if nobody computes any.
Json to_json(const Recomputation& recomputation);
// The reverse. Throws Error{kInput} naming `place`, the value found and those allowed.
Recomputation parse_recomputation(const Json& json, int ranks, const std::filesystem::path& place);

}  // namespace atl
