// Where lanes put their codes: arithmetic that runs on any host.
#include <gtest/gtest.h>

#include <vector>

#include "kernels/cuda/code_words.hpp"
#include "kernels/wire.hpp"

namespace atl::cuda {

namespace {

// Every bit of a message's codes belongs to one group, and every word of it is written by one lane.
TEST(CudaCodeWords, GroupsCoverARowOnce) {
  for (const int bits : {1, 2, 4, 8, 16}) {
    for (const std::int64_t cols : {1, 2, 3, 4, 5, 31, 32, 33, 129}) {
      const std::int64_t words = wire_code_bytes(bits, cols) / 4;
      std::vector<int> covered(static_cast<std::size_t>(words * 32));
      std::vector<int> written(static_cast<std::size_t>(words));
      for (std::int64_t col = 0; col < cols; col += kGroup) {
        const GroupPlace place = place_of_group(bits, col);
        // Lanes that share a word are neighbours, and the first of them begins it.
        ASSERT_EQ(place.shift == 0, col / kGroup % sharers_of_word(bits) == 0);
        for (std::int64_t k = 0; k < kGroup && col + k < cols; ++k) {
          for (int bit = 0; bit < bits; ++bit) {
            ++covered.at(static_cast<std::size_t>(place.word * 32 + place.shift + k * bits + bit));
          }
        }
        for (int w = 0; place.shift == 0 && w < words_of_group(bits); ++w) {
          if (has_word(bits, col, w, cols)) ++written.at(static_cast<std::size_t>(place.word + w));
        }
      }
      for (std::int64_t bit = 0; bit < words * 32; ++bit) {
        ASSERT_EQ(covered[static_cast<std::size_t>(bit)], bit < cols * bits ? 1 : 0)
            << bits << " bits, " << cols << " columns";
      }
      ASSERT_EQ(written, std::vector<int>(static_cast<std::size_t>(words), 1))
          << bits << " bits, " << cols << " columns";
    }
  }
}

}  // namespace

}  // namespace atl::cuda
