// Products in tile registers, where the processor has them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "base/philox.hpp"
#include "kernels/cpu/elements.hpp"
#include "kernels/cpu/product.hpp"
#include "kernels/cpu/tiles.hpp"

namespace atl {

namespace {

struct TileCase {
  std::int64_t rows;
  std::int64_t inner;
  std::int64_t cols;
  Transpose transpose_b = Transpose::kNo;
  double beta = 0;
};

// A matrix with `gap` entries behind each row that no product may read or write.
template <typename T>
struct Padded {
  Padded(std::int64_t rows_in, std::int64_t cols_in, std::int64_t gap)
      : rows(rows_in),
        cols(cols_in),
        stride(cols_in + gap),
        values(static_cast<std::size_t>(rows_in * stride), filler()) {}
  static T filler() {
    if constexpr (std::is_same_v<T, Bf16>) {
      return to_bf16(std::numeric_limits<float>::quiet_NaN());
    } else {
      return std::numeric_limits<T>::quiet_NaN();
    }
  }
  T* row(std::int64_t i) { return values.data() + i * stride; }
  // draw(k) for every entry.
  template <typename Draw>
  void fill(const Draw& draw) {
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < cols; ++j) store(row(i), j, draw(i * cols + j));
    }
  }
  MatrixView view() {
    const DType dtype = std::is_same_v<T, Bf16> ? DType::kBf16 : DType::kF32;
    return {values.data(), rows, cols, stride, dtype};
  }

  std::int64_t rows;
  std::int64_t cols;
  std::int64_t stride;
  std::vector<T> values;
};

// Numbers of (-1, 1), or whole ones of [-3, 3], sums of which are exact in every order.
float drawn(bool whole, std::uint64_t matrix, std::int64_t k) {
  const float uniform =
      random_uniform({9, RandomStream::kGenerator}, matrix, static_cast<std::uint32_t>(k));
  return whole ? std::floor(7 * uniform) - 3 : 2 * uniform - 1;
}

template <typename T>
void expect_products(const TileCase& sizes, bool whole) {
  const auto [rows, inner, cols, transpose, beta] = sizes;
  const bool turned = transpose == Transpose::kYes;
  const std::int64_t gap = whole ? 3 : 0;
  Padded<Bf16> a(rows, inner, gap);
  Padded<Bf16> b(turned ? cols : inner, turned ? inner : cols, gap);
  Padded<T> c(rows, cols, gap);
  a.fill([&](std::int64_t k) { return drawn(whole, 1, k); });
  b.fill([&](std::int64_t k) { return drawn(whole, 2, k); });
  c.fill([&](std::int64_t k) { return drawn(whole, 3, k); });
  Padded<T> expected = c;
  if (whole) {
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < cols; ++j) {
        float sum = beta == 0 ? 0.0F : load(c.row(i), j);
        for (std::int64_t k = 0; k < inner; ++k) {
          sum += load(a.row(i), k) * (turned ? load(b.row(j), k) : load(b.row(k), j));
        }
        store(expected.row(i), j, sum);
      }
    }
  } else {
    multiply(Transpose::kNo, a.view(), transpose, b.view(), beta, expected.view());
  }
  std::vector<Bf16> tiles(static_cast<std::size_t>(tiled_entries(inner, cols)), Bf16{0x7FC0});
  store_as_tiles(transpose, b.view(), tiles.data());
  multiply_tiles(a.view(), tiles.data(), beta, c.view());
  EXPECT_EQ(std::memcmp(c.values.data(), expected.values.data(), c.values.size() * sizeof(T)), 0)
      << rows << " x " << inner << " x " << cols << (turned ? ", turned" : "") << ", beta " << beta;
}

void expect_products(TileCase sizes, bool whole) {
  for (const Transpose transpose : {Transpose::kNo, Transpose::kYes}) {
    sizes.transpose_b = transpose;
    sizes.beta = 0;
    expect_products<Bf16>(sizes, whole);
    if (whole) {
      sizes.beta = 1;
      expect_products<Bf16>(sizes, whole);
    }
    for (const double beta : {0.0, 1.0}) {
      sizes.beta = beta;
      expect_products<float>(sizes, whole);
    }
  }
}

TEST(CpuTiles, ExactSumsOfEveryShape) {
  if (!multiplies_in_tiles()) GTEST_SKIP() << "no tiles on this processor";
  for (const std::int64_t rows : {1, 15, 16, 17, 31, 32, 33, 50, 200}) {
    for (const std::int64_t inner : {1, 2, 31, 32, 40, 97}) {
      for (const std::int64_t cols : {1, 7, 16, 32, 40, 47, 130}) {
        expect_products({rows, inner, cols}, true);
      }
    }
  }
}

TEST(CpuTiles, TheBitsOfOneDnn) {
  if (!multiplies_in_tiles()) GTEST_SKIP() << "no tiles on this processor";
  for (const TileCase& sizes :
       {TileCase{512, 256, 256}, {100, 128, 256}, {512, 256, 40}, {333, 40, 256}, {64, 602, 64}}) {
    expect_products(sizes, false);
  }
}

TEST(CpuTiles, NothingToMultiply) {
  if (!multiplies_in_tiles()) GTEST_SKIP() << "no tiles on this processor";
  std::vector<float> c{5};
  multiply_tiles({nullptr, 0, 4, 4, DType::kBf16}, nullptr, 0, {c.data(), 0, 1, 1, DType::kF32});
  EXPECT_EQ(c[0], 5);
}

// c = a^T b of matrices with `gap` entries behind their rows; memory and c start as NaN.
Padded<float> transposed_product(Padded<Bf16>& a, Padded<Bf16>& b, std::int64_t gap) {
  Padded<float> c(a.cols, b.cols, gap);
  std::vector<float> memory(static_cast<std::size_t>(transposed_tiles_floats(a.cols, b.cols)),
                            std::numeric_limits<float>::quiet_NaN());
  multiply_transposed_tiles(a.view(), b.view(), memory.data(), c.view());
  return c;
}

// The same, one sum after the other.
Padded<double> summed_product(Padded<Bf16>& a, Padded<Bf16>& b) {
  Padded<double> c{a.cols, b.cols, 0};
  for (std::int64_t i = 0; i < a.cols; ++i) {
    for (std::int64_t j = 0; j < b.cols; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < a.rows; ++k) {
        sum += static_cast<double>(load(a.row(k), i)) * static_cast<double>(load(b.row(k), j));
      }
      c.row(i)[j] = sum;
    }
  }
  return c;
}

TEST(CpuTiles, ExactTransposedSumsOfEveryShape) {
  if (!multiplies_in_tiles()) GTEST_SKIP() << "no tiles on this processor";
  for (const std::int64_t rows : {0, 1, 2, 31, 32, 33, 127, 128, 129, 300}) {
    for (const std::int64_t a_cols : {1, 7, 16, 40, 100}) {
      for (const std::int64_t b_cols : {1, 4, 31, 32, 47}) {
        constexpr std::int64_t kGap = 3;
        Padded<Bf16> a(rows, a_cols, kGap);
        Padded<Bf16> b(rows, b_cols, kGap);
        a.fill([&](std::int64_t k) { return drawn(true, 1, k); });
        b.fill([&](std::int64_t k) { return drawn(true, 2, k); });
        Padded<float> found = transposed_product(a, b, kGap);
        Padded<double> expected = summed_product(a, b);
        const std::string what = std::to_string(rows) + " rows, " + std::to_string(a_cols) + " x " +
                                 std::to_string(b_cols);
        for (std::int64_t i = 0; i < a_cols; ++i) {
          for (std::int64_t j = 0; j < b_cols; ++j) {
            ASSERT_EQ(static_cast<double>(found.row(i)[j]), expected.row(i)[j]) << what;
          }
          for (std::int64_t j = b_cols; j < b_cols + kGap; ++j) {
            ASSERT_TRUE(std::isnan(found.row(i)[j])) << what << ": written behind a row";
          }
        }
      }
    }
  }
}

TEST(CpuTiles, TransposedSumsAreOfF32) {
  if (!multiplies_in_tiles()) GTEST_SKIP() << "no tiles on this processor";
  constexpr std::int64_t kRows = 1500;
  Padded<Bf16> a(kRows, 70, 0);
  Padded<Bf16> b(kRows, 40, 0);
  a.fill([&](std::int64_t k) { return drawn(false, 1, k); });
  b.fill([&](std::int64_t k) { return drawn(false, 2, k); });
  Padded<float> found = transposed_product(a, b, 0);
  Padded<double> expected = summed_product(a, b);
  for (std::int64_t i = 0; i < found.rows; ++i) {
    for (std::int64_t j = 0; j < found.cols; ++j) {
      // As in the tests of operations: 1e-7 per term at most.
      EXPECT_NEAR(static_cast<double>(found.row(i)[j]), expected.row(i)[j], 1e-7 * kRows);
    }
  }
}

// A value that is no number reaches what it is a factor of, and nothing else.
TEST(CpuTiles, NaNAndInfinityInTransposedSums) {
  if (!multiplies_in_tiles()) GTEST_SKIP() << "no tiles on this processor";
  Padded<Bf16> a(130, 40, 0);
  Padded<Bf16> b(130, 37, 0);
  a.fill([&](std::int64_t k) { return drawn(true, 1, k); });
  b.fill([&](std::int64_t k) { return drawn(true, 2, k); });
  store(a.row(129), 3, std::numeric_limits<float>::quiet_NaN());
  store(a.row(5), 39, -std::numeric_limits<float>::infinity());
  store(b.row(64), 36, std::numeric_limits<float>::infinity());
  Padded<float> found = transposed_product(a, b, 0);
  Padded<double> expected = summed_product(a, b);
  for (std::int64_t i = 0; i < found.rows; ++i) {
    for (std::int64_t j = 0; j < found.cols; ++j) {
      if (std::isnan(expected.row(i)[j])) {
        EXPECT_TRUE(std::isnan(found.row(i)[j])) << i << ", " << j;
      } else {
        EXPECT_EQ(static_cast<double>(found.row(i)[j]), expected.row(i)[j]) << i << ", " << j;
      }
    }
  }
}

}  // namespace
}  // namespace atl
