#include "base/philox.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace atl {

namespace {

// The known answers that the authors publish (Random123, tests/kat_vectors, "philox4x32 10").
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, 0),
            (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, 0xffffffffffffffff),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// The layout is a file format: a change would change every run's numbers.
TEST(Philox, CounterLayout) {
  const RandomKey key{77, RandomStream::kRoundForward, 3, 0x01020304};
  EXPECT_EQ(philox_counter(key, 0xABCD'12345678, 0x55),
            (PhiloxBlock{0x55, 0x01020304, 0x12345678, 0xABCD0304}));
}

TEST(Philox, BitsAreWordsOfBlocks) {
  const RandomKey key{5, RandomStream::kInit};
  const PhiloxBlock block = random_block(key, 9, 2);
  for (std::uint32_t lane = 0; lane < 4; ++lane) {
    EXPECT_EQ(random_bits(key, 9, 8 + lane), block[lane]);
  }
  EXPECT_EQ(random_uniform(key, 9, 8), static_cast<float>(block[0] >> 8U) / 16777216.0F);
}

TEST(Philox, HalfWordsGoLowHalfFirst) {
  const PhiloxBlock block{0x00020001, 0x00040003, 0x00060005, 0x00080007};
  for (std::uint32_t lane = 0; lane < 8; ++lane)
    EXPECT_EQ(dropout_half_word(block, lane), lane + 1);
}

TEST(Philox, UniformStaysBelowOne) {
  double sum = 0;
  for (std::uint32_t j = 0; j < 4096; ++j) {
    const float value = random_uniform({1, RandomStream::kGenerator}, 0, j);
    ASSERT_GE(value, 0.0F);
    ASSERT_LT(value, 1.0F);
    sum += static_cast<double>(value);
  }
  // Standard deviation of the mean: .289 / 64 = .0045.
  EXPECT_NEAR(sum / 4096, 0.5, 0.02);
}

TEST(Dropout, ThresholdAndScaleAreExactInverses) {
  EXPECT_EQ(dropout_threshold(0).threshold, 65536U);
  EXPECT_EQ(dropout_threshold(0).scale, 1.0F);
  EXPECT_EQ(dropout_threshold(0.5).threshold, 32768U);
  EXPECT_EQ(dropout_threshold(0.5).scale, 2.0F);
  // .9 * 65536 = 58982.4 is rounded, and the scale belongs to the rounded value.
  EXPECT_EQ(dropout_threshold(0.1).threshold, 58982U);
  EXPECT_EQ(dropout_threshold(0.1).scale, 65536.0F / 58982.0F);
  EXPECT_EQ(dropout_threshold(1 - 1e-9).threshold, 1U);
}

TEST(Dropout, ExpectationIsOne) {
  const RandomKey key{3, RandomStream::kDropout, 1, 2};
  for (const double drop : {0.1, 0.5, 0.8}) {
    const DropoutThreshold rate = dropout_threshold(drop);
    constexpr int kDraws = 400'000;
    int kept = 0;
    for (int k = 0; k < kDraws; ++k) {
      const auto row = static_cast<std::uint64_t>(k / 100);
      kept += dropout_keeps(key, row, static_cast<std::uint32_t>(k % 100), rate.threshold) ? 1 : 0;
    }
    const double expectation = static_cast<double>(rate.scale) * kept / kDraws;
    // Five standard deviations of the mean of `kDraws` independent elements.
    EXPECT_NEAR(expectation, 1, 5 * std::sqrt(drop / (1 - drop) / kDraws)) << drop;
  }
}

// Streams, epochs, layers, seeds, rows and columns all give other bits.
TEST(Dropout, EveryPartOfTheKeyMatters) {
  const RandomKey base{1, RandomStream::kDropout, 0, 0};
  const PhiloxBlock block = random_block(base, 0, 0);
  EXPECT_NE(block, random_block({2, RandomStream::kDropout, 0, 0}, 0, 0));
  EXPECT_NE(block, random_block({1, RandomStream::kInputDropout, 0, 0}, 0, 0));
  EXPECT_NE(block, random_block({1, RandomStream::kDropout, 1, 0}, 0, 0));
  EXPECT_NE(block, random_block({1, RandomStream::kDropout, 0, 1}, 0, 0));
  EXPECT_NE(block, random_block(base, 1, 0));
  EXPECT_NE(block, random_block(base, std::uint64_t{1} << 40U, 0));
  EXPECT_NE(block, random_block(base, 0, 1));
}

}  // namespace

}  // namespace atl
