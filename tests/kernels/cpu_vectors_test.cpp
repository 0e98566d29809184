// The vectors of the cpu backend on each instruction set that this processor has: numbers that must
// not depend on it.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/cpu/column_epilogue.hpp"
#include "kernels/cpu/column_sums.hpp"
#include "kernels/cpu/elements.hpp"
#include "kernels/cpu/exponential.hpp"
#include "kernels/cpu/random_blocks.hpp"
#include "tests/kernels/harness.hpp"

namespace atl {

namespace {

class CpuVectors : public ::testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (GetParam() > detect_isa()) GTEST_SKIP() << "no " << isa_name(GetParam());
  }
};
std::string vectors_name(const ::testing::TestParamInfo<Isa>& test) {
  const char* const names[] = {"baseline", "avx2", "avx512"};
  return names[static_cast<std::size_t>(test.param)];
}
INSTANTIATE_TEST_SUITE_P(Isas, CpuVectors,
                         ::testing::Values(Isa::kBaseline, Isa::kAvx2, Isa::kAvx512), vectors_name);

// The payloads of NaN among them.
TEST_P(CpuVectors, RoundAsToBf16BitForBit) {
  const std::vector<float> values = numbers_to_round();
  const auto count = static_cast<std::int64_t>(values.size());
  std::vector<Bf16> rounded(values.size());
  std::vector<float> widened(values.size());
  run_with_vectors(GetParam(), [&]<int kBytes>() ATOLL_INLINE {
    convert_columns<kBytes>(values.data(), count, rounded.data());
    convert_columns<kBytes>(rounded.data(), count, widened.data());
  });
  for (std::size_t k = 0; k < values.size(); ++k) {
    const Bf16 expected = to_bf16(values[k]);
    ASSERT_EQ(rounded[k].bits, expected.bits) << std::hexfloat << values[k];
    ASSERT_EQ(std::bit_cast<std::uint32_t>(widened[k]), std::uint32_t{expected.bits} << 16U);
  }
}

// Each number of columns up to two of the widest units, and nothing behind the last one.
TEST_P(CpuVectors, UnitsCoverEachColumnOnce) {
  for (std::int64_t count = 0; count <= 64; ++count) {
    std::vector<float> x;
    for (std::int64_t j = 0; j < count; ++j) x.push_back(static_cast<float>(j + 1));
    std::vector<Bf16> y(static_cast<std::size_t>(count + 8), Bf16{0x7777});
    std::vector<int> visits(static_cast<std::size_t>(count + 64));
    run_with_vectors(GetParam(), [&]<int kBytes>() ATOLL_INLINE {
      convert_columns<kBytes>(x.data(), count, y.data());
      for_columns<kBytes>(0, count, [&]<int kUnit>(std::int64_t j, auto part) ATOLL_INLINE {
        std::int64_t columns = Pair<kUnit>::kColumns;
        if constexpr (std::is_same_v<decltype(part), PartOfUnit>) columns = part.count;
        for (std::int64_t k = 0; k < columns; ++k) ++visits[static_cast<std::size_t>(j + k)];
      });
    });
    for (std::int64_t j = 0; j < count + 8; ++j) {
      const auto at = static_cast<std::size_t>(j);
      ASSERT_EQ(y[at].bits, j < count ? to_bf16(x[at]).bits : 0x7777) << j << " of " << count;
    }
    for (std::size_t j = 0; j < visits.size(); ++j) {
      ASSERT_EQ(visits[j], static_cast<std::int64_t>(j) < count ? 1 : 0) << j << " of " << count;
    }
  }
}

// Against philox4x32: words beyond 32 bits of seed, row and the last block.
TEST_P(CpuVectors, DrawTheBlocksOfPhilox) {
  for (const std::uint64_t seed : {0ULL, 0xFFFFFFFFFFFFFFFFULL, 0x123456789ABCDEF0ULL}) {
    for (const std::uint64_t row : {0ULL, 0xFFFFFFFFFFFFULL, 0x10000ABCDULL}) {
      for (const std::uint32_t first : {0U, 32U, 0xFFFFFF00U}) {
        const RandomKey key{seed, RandomStream::kDropout, 3, 0xFFFFFFFFU};
        std::uint32_t words[3][128];
        std::int64_t blocks = 0;
        run_with_vectors(GetParam(), [&]<int kBytes>() ATOLL_INLINE {
          blocks = kBytes / 8;
          draw_vectors<kBytes, 1>(key, row, first, words[0]);
          draw_vectors<kBytes, 2>(key, row, first, words[1]);
          draw_vectors<kBytes, 4>(key, row, first, words[2]);
        });
        for (std::uint32_t k = 0; k < 4 * blocks; ++k) {
          const PhiloxBlock expected = random_block(key, row, first + k);
          for (int drawn = k < blocks ? 0 : k < 2 * blocks ? 1 : 2; drawn < 3; ++drawn) {
            for (std::uint32_t w = 0; w < 4; ++w) {
              ASSERT_EQ(words[drawn][4 * k + w], expected[w]) << "block " << k << ", word " << w;
            }
          }
        }
      }
    }
  }
}

// Kept ones are 3 times the scale, rounded to T.
template <typename T>
void expect_dropout(Isa isa, std::int64_t cols, double rate) {
  const RandomKey key{77, RandomStream::kDropout, 1, 5};
  const std::vector<GlobalId> rows{GlobalId{0x123456789}};
  const auto size = static_cast<std::size_t>(cols);
  const std::vector<float> x(size, 3.0F);
  const std::vector<float> zeros(size, 0.0F);
  const std::vector<float> ones(size, 1.0F);
  std::vector<T> from(size);
  std::vector<T> y(size + 1);
  std::vector<float> wide(size + 1);
  store(y.data(), cols, -7.0F);  // which stays
  ColumnEpilogue epilogue{zeros.data(), ones.data(), zeros.data(), ActivationFunction::kNone, {}};
  epilogue.dropout.key = key;
  epilogue.dropout.rate = dropout_threshold(rate);
  epilogue.dropout.row_ids = rows;
  run_with_vectors(isa, [&]<int kBytes>() ATOLL_INLINE {
    convert_columns<kBytes>(x.data(), cols, from.data());
    finish_row<kBytes, false>(epilogue, 0, cols, from.data(), y.data());
    convert_columns<kBytes>(y.data(), cols + 1, wide.data());
  });
  const auto [threshold, scale] = epilogue.dropout.rate;
  T rounded;
  store(&rounded, 0, 3.0F * scale);
  for (std::size_t j = 0; j < size; ++j) {
    const bool kept = dropout_keeps(key, 0x123456789, static_cast<std::uint32_t>(j), threshold);
    ASSERT_EQ(wide[j], kept ? load(&rounded, 0) : 0.0F) << "column " << j << " of " << cols;
  }
  ASSERT_EQ(wide[size], -7.0F);
}

TEST_P(CpuVectors, DropoutKeepsWhatTheDefinitionKeeps) {
  for (const double rate : {0.00001, 0.1, 0.5, 0.9999}) {
    for (const std::int64_t cols : {1, 7, 31, 64, 129, 300, 515}) {
      expect_dropout<float>(GetParam(), cols, rate);
      expect_dropout<Bf16>(GetParam(), cols, rate);
    }
  }
}

// The same order of additions as row by row, hence the same bits: blocks, tiles and columns that
// are left.
template <typename T>
void expect_sums(Isa isa, std::int64_t rows, std::int64_t cols) {
  const std::int64_t stride = cols + 3;
  std::vector<T> x(static_cast<std::size_t>(rows * stride));
  for (std::int64_t k = 0; k < rows * stride; ++k) {
    store(x.data(), k,
          random_uniform({5, RandomStream::kGenerator}, 0, static_cast<std::uint32_t>(k)));
  }
  std::vector<double> expected(static_cast<std::size_t>(cols), 0.5);
  for (std::int64_t i = 1; i < rows; ++i) {  // not all rows
    for (std::int64_t j = 0; j < cols; ++j) {
      expected[static_cast<std::size_t>(j)] += static_cast<double>(load(x.data() + i * stride, j));
    }
  }
  const DType dtype = std::is_same_v<T, float> ? DType::kF32 : DType::kBf16;
  const ConstMatrixView view{x.data(), rows, cols, stride, dtype};
  std::vector<double> found(static_cast<std::size_t>(cols), 0.5);
  std::vector<double> twice(static_cast<std::size_t>(cols), 1.0);
  run_with_vectors(isa, [&]<int kBytes>() ATOLL_INLINE {
    sum_columns<kBytes, T>(std::array{view}, {1, rows}, std::array{found.data(), twice.data()},
                           [&]<int kUnit>(std::int64_t i, std::int64_t j, auto* to) ATOLL_INLINE {
                             typename Vectors<kUnit>::Doubles value;
                             load_doubles<kUnit>(view.row<T>(i) + j, value);
                             to[0] += value;
                             to[1] += value + value;
                           });
  });
  for (std::size_t j = 0; j < found.size(); ++j) {
    ASSERT_EQ(found[j], expected[j]) << j << " of " << cols << ", " << rows << " rows";
    ASSERT_EQ(twice[j], 2 * expected[j]) << j << " of " << cols << ", " << rows << " rows";
  }
}

TEST_P(CpuVectors, SumsOfColumnsAddRowAfterRow) {
  for (const std::int64_t cols : {1, 2, 3, 13, 32, 64, 100, 256, 5000}) {
    for (const std::int64_t rows : {1, 3, 16, 37, 200}) {
      expect_sums<float>(GetParam(), rows, cols);
      expect_sums<Bf16>(GetParam(), rows, cols);
    }
  }
}

// f.template operator()<kUnit>(values) of all.
template <typename Function>
std::vector<float> values_of(Isa isa, const std::vector<float>& x, const Function& f) {
  std::vector<float> y(x.size());
  run_with_vectors(isa, [&]<int kBytes>() ATOLL_INLINE {
    for_columns<kBytes>(0, static_cast<std::int64_t>(x.size()),
                        [&]<int kUnit>(std::int64_t j, auto part) ATOLL_INLINE {
                          typename Vectors<kUnit>::Floats values[2];
                          Pair<kUnit>::load(x.data() + j, part, values);
                          for (int r = 0; r < 2; ++r) f.template operator()<kUnit>(values[r]);
                          Pair<kUnit>::store(values, part, y.data() + j);
                        });
  });
  return y;
}

std::vector<float> exponentials(Isa isa, const std::vector<float>& x) {
  return values_of(isa, x,
                   []<int kUnit>(auto& value) ATOLL_INLINE { exponential<kUnit>(value, value); });
}

// Every 997th number from 0 to `last`, which is among them, with its sign.
std::vector<float> numbers_to(float last) {
  std::vector<float> x;
  const std::uint32_t sign = std::bit_cast<std::uint32_t>(last) & 0x80000000U;
  for (std::uint32_t bits = sign; bits < std::bit_cast<std::uint32_t>(last); bits += 997) {
    x.push_back(std::bit_cast<float>(bits));
  }
  x.push_back(last);
  return x;
}

// Down to the number of which the result is the least normal number.
TEST_P(CpuVectors, ExponentialsAreWithinOneAndAHalfUlp) {
  const std::vector<float> x = numbers_to(kLeastExponent);
  const std::vector<float> found = exponentials(GetParam(), x);
  double worst = 0;
  for (std::size_t k = 0; k < x.size(); ++k) {
    const double expected = std::exp(static_cast<double>(x[k]));
    const double ulp = std::ldexp(1.0, std::ilogb(expected) - 23);
    worst = std::max(worst, std::abs(static_cast<double>(found[k]) - expected) / ulp);
    ASSERT_LE(worst, 1.5) << "exp(" << x[k] << ") is " << expected << ", found " << found[k];
  }
  RecordProperty("worst_ulp_times_1000", static_cast<int>(1000 * worst));
}

TEST_P(CpuVectors, ExponentialsLessOneKeepTheirDigitsCloseToZero) {
  const std::vector<float> x = numbers_to(-100);
  const std::vector<float> found =
      values_of(GetParam(), x, []<int kUnit>(auto& value) ATOLL_INLINE {
        typename Vectors<kUnit>::Floats less_one;
        expm1_of_negative<kUnit>(value, less_one);
        value = less_one;
      });
  for (std::size_t k = 0; k < x.size(); ++k) {
    const double expected = std::expm1(static_cast<double>(x[k]));
    ASSERT_LE(std::abs(static_cast<double>(found[k]) - expected), 2.5e-7 * std::abs(expected))
        << "exp(" << x[k] << ") - 1";
  }
}

TEST_P(CpuVectors, ComplementaryErrorFunctionIsWithinItsBound) {
  const std::vector<float> x = numbers_to(1e4F);
  const std::vector<float> found =
      values_of(GetParam(), x, []<int kUnit>(auto& value) ATOLL_INLINE {
        typename Vectors<kUnit>::Floats y;
        erfc_of_positive<kUnit>(value, y);
        value = y;
      });
  double worst = 0;
  for (std::size_t k = 0; k < x.size(); ++k) {
    const double error = static_cast<double>(found[k]) - std::erfc(static_cast<double>(x[k]));
    worst = std::max(worst, std::abs(error));
    ASSERT_LE(worst, 2e-7) << "erfc(" << x[k] << ")";
    ASSERT_GE(found[k], 0.0F);
  }
  RecordProperty("worst_times_1e10", static_cast<int>(1e10 * worst));
}

// Against double over all sizes; and what lies far out.
TEST_P(CpuVectors, GeluIsWithinItsBound) {
  for (const float last : {50.0F, -50.0F}) {
    const std::vector<float> x = numbers_to(last);
    const std::vector<float> found =
        values_of(GetParam(), x, []<int kUnit>(auto& value) ATOLL_INLINE {
          activate<kUnit>(ActivationFunction::kGelu, value);
        });
    for (std::size_t k = 0; k < x.size(); ++k) {
      const auto wide = static_cast<double>(x[k]);
      const double expected = wide * std::erfc(-wide / std::numbers::sqrt2) / 2;
      ASSERT_NEAR(found[k], expected, 3e-7 * (1 + std::abs(expected))) << "gelu(" << x[k] << ")";
    }
  }
}

TEST_P(CpuVectors, ExponentialsAtTheEnds) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float below = std::nextafter(kLeastExponent, -kInfinity);
  const std::vector<float> found = exponentials(
      GetParam(), {0.0F, -0.0F, below, -88, -104, -1e30F, -std::numeric_limits<float>::max(),
                   -kInfinity, std::numeric_limits<float>::quiet_NaN(), kLeastExponent});
  EXPECT_EQ(found[0], 1.0F);
  EXPECT_EQ(found[1], 1.0F);
  for (std::size_t k = 2; k < 8; ++k) EXPECT_EQ(std::bit_cast<std::uint32_t>(found[k]), 0U) << k;
  EXPECT_TRUE(std::isnan(found[8]));
  EXPECT_GE(found[9], std::numeric_limits<float>::min());
}

}  // namespace

}  // namespace atl
