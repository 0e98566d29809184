// Where the codes of a message stand when lanes of a warp each take a group of four columns: plain
// arithmetic, so that the host compiler can test it.
#pragma once

#include <cstdint>

#include "base/philox.hpp"

namespace atl::cuda {

inline constexpr int kGroup = 4;  // columns of a lane at a time: those of one random block

// Words that the codes of one group fill, or begin.
ATOLL_HOST_DEVICE constexpr int words_of_group(int bits) { return bits == 16 ? 2 : 1; }
// Neighbouring lanes whose groups share a word.
ATOLL_HOST_DEVICE constexpr int sharers_of_word(int bits) { return bits < 8 ? 8 / bits : 1; }

// The codes of the group at column `col`, a multiple of kGroup: from bit `shift` of word `word` of
// the codes on. bits below 32.
struct GroupPlace {
  std::int64_t word;
  unsigned shift;
};
ATOLL_HOST_DEVICE constexpr GroupPlace place_of_group(int bits, std::int64_t col) {
  return {col * bits / 32, static_cast<unsigned>(col * bits % 32)};
}

// True if a row of `cols` columns has the word `word` of the group at `col`.
ATOLL_HOST_DEVICE constexpr bool has_word(int bits, std::int64_t col, int word, std::int64_t cols) {
  return col + word * (kGroup / words_of_group(bits)) < cols;
}

}  // namespace atl::cuda
