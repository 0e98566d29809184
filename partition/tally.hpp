// Sums by key of a node's neighbourhood, in memory that grows with the number of keys alone.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

namespace atl {

// An open-addressing table that is emptied by forgetting what was used.
class Tally {
 public:
  // Room for `keys` different ones; empties it.
  void start(std::int64_t keys) {
    clear();
    const std::size_t wanted = std::bit_ceil(static_cast<std::size_t>(2 * keys + 2));
    if (wanted > keys_.size()) {
      keys_.assign(wanted, kFree);
      sums_.assign(wanted, 0);
    }
    shift_ = static_cast<unsigned>(64 - std::countr_zero(wanted));
    mask_ = wanted - 1;
  }
  void add(std::int32_t key, std::int64_t weight) {
    std::size_t i = static_cast<std::size_t>(
        (static_cast<std::uint64_t>(static_cast<std::uint32_t>(key)) * 0x9E3779B97F4A7C15U) >>
        shift_);
    while (keys_[i] != key) {
      if (keys_[i] == kFree) {
        keys_[i] = key;
        used_.push_back(i);
        break;
      }
      i = (i + 1) & mask_;
    }
    sums_[i] += weight;
  }
  // f(key, sum), in the order in which keys came.
  template <typename F>
  void for_each(const F& f) const {
    for (const std::size_t i : used_) f(keys_[i], sums_[i]);
  }
  void clear() {
    for (const std::size_t i : used_) {
      keys_[i] = kFree;
      sums_[i] = 0;
    }
    used_.clear();
  }

 private:
  static constexpr std::int32_t kFree = -1;
  std::vector<std::int32_t> keys_;
  std::vector<std::int64_t> sums_;
  std::vector<std::size_t> used_;
  unsigned shift_ = 63;
  std::size_t mask_ = 0;
};

}  // namespace atl
