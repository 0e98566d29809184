// Products of f32 in panels, on processors with AVX-512: the bits of oneDNN.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/philox.hpp"
#include "kernels/cpu/panels.hpp"
#include "kernels/cpu/product.hpp"

namespace atl {

namespace {

// A matrix of numbers of (-1, 1) with `gap` NaN behind each row.
struct GappedFloats {
  GappedFloats(std::int64_t rows_in, std::int64_t cols_in, std::int64_t gap, std::uint64_t matrix)
      : rows(rows_in), cols(cols_in), stride(cols_in + gap) {
    values.assign(static_cast<std::size_t>(rows * stride), std::numeric_limits<float>::quiet_NaN());
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < cols; ++j) {
        at(i, j) = 2 * random_uniform({9, RandomStream::kGenerator}, matrix,
                                      static_cast<std::uint32_t>(i * cols + j)) -
                   1;
      }
    }
  }
  float& at(std::int64_t i, std::int64_t j) {
    return values[static_cast<std::size_t>(i * stride + j)];
  }
  MatrixView view() { return {values.data(), rows, cols, stride, DType::kF32}; }

  std::int64_t rows;
  std::int64_t cols;
  std::int64_t stride;
  std::vector<float> values;
};

std::vector<float> no_numbers(std::int64_t count) {
  return std::vector<float>(static_cast<std::size_t>(count),
                            std::numeric_limits<float>::quiet_NaN());
}

// Also where two NaN differ in their bits.
void expect_equal(const GappedFloats& found, const GappedFloats& expected,
                  const std::string& what) {
  for (std::size_t k = 0; k < found.values.size(); ++k) {
    if (std::isnan(expected.values[k]) && std::isnan(found.values[k])) continue;
    ASSERT_EQ(std::memcmp(&found.values[k], &expected.values[k], sizeof(float)), 0)
        << what << ": element " << k << " is " << found.values[k] << ", expected "
        << expected.values[k];
  }
}

class CpuPanels : public ::testing::Test {
 protected:
  void SetUp() override {
    if (detect_isa() != Isa::kAvx512) GTEST_SKIP() << "no AVX-512, or not asked for";
  }
};

void expect_product(GappedFloats& a, Transpose transpose, GappedFloats& b, GappedFloats c,
                    const std::string& what) {
  std::vector<float> panels = no_numbers(panel_floats(a.cols, c.cols));
  store_as_panels(transpose, b.view(), panels.data());
  for (const double beta : {0.0, 1.0}) {
    GappedFloats found = c;
    GappedFloats expected = c;
    multiply_panels(a.view(), panels.data(), beta, found.view());
    multiply(Transpose::kNo, a.view(), transpose, b.view(), beta, expected.view());
    expect_equal(found, expected, what + ", beta " + std::to_string(beta));
  }
}

TEST_F(CpuPanels, TheBitsOfOneDnn) {
  for (const std::int64_t rows : {2, 3, 13, 14, 15, 32, 33, 41, 100}) {
    for (const std::int64_t inner : {1, 8, 9, 100, 384}) {
      for (const std::int64_t cols : {2, 15, 16, 17, 32, 40, 47, 130}) {
        for (const Transpose transpose : {Transpose::kNo, Transpose::kYes}) {
          const bool turned = transpose == Transpose::kYes;
          if (turned && rows < 32) continue;  // oneDNN has another order there
          GappedFloats a(rows, inner, 3, 1);
          GappedFloats b(turned ? cols : inner, turned ? inner : cols, 5, 2);
          expect_product(a, transpose, b, {rows, cols, 1, 3},
                         std::to_string(rows) + " x " + std::to_string(inner) + " x " +
                             std::to_string(cols) + (turned ? ", turned" : ""));
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

GappedFloats transposed_in_panels(GappedFloats& a, GappedFloats& b) {
  GappedFloats c(a.cols, b.cols, 1, 3);
  std::vector<float> memory = no_numbers(transposed_panels_floats(a.cols, b.cols));
  multiply_transposed_panels(a.view(), b.view(), memory.data(), c.view());
  return c;
}

TEST_F(CpuPanels, TheBitsOfOneDnnTransposed) {
  for (const std::int64_t rows : {1, 383, 384, 385, 767, 768, 769, 1500}) {
    for (const std::int64_t a_cols : {2, 13, 14, 15, 40, 100}) {
      for (const std::int64_t b_cols : {2, 16, 31, 32, 47, 64}) {
        GappedFloats a(rows, a_cols, 3, 1);
        GappedFloats b(rows, b_cols, 5, 2);
        GappedFloats expected(a_cols, b_cols, 1, 3);
        multiply(Transpose::kYes, a.view(), Transpose::kNo, b.view(), 0, expected.view());
        expect_equal(transposed_in_panels(a, b), expected,
                     std::to_string(rows) + " rows, " + std::to_string(a_cols) + " x " +
                         std::to_string(b_cols));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(CpuPanels, NaNAndInfinity) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  GappedFloats a(30, 40, 0, 1);
  GappedFloats b(40, 50, 0, 2);
  a.at(3, 7) = std::numeric_limits<float>::quiet_NaN();
  a.at(29, 39) = -kInfinity;
  b.at(5, 49) = kInfinity;
  expect_product(a, Transpose::kNo, b, {30, 50, 0, 3}, "product");
  GappedFloats tall(40, 30, 0, 4);
  tall.at(0, 29) = kInfinity;
  GappedFloats expected(30, 50, 1, 3);
  multiply(Transpose::kYes, tall.view(), Transpose::kNo, b.view(), 0, expected.view());
  expect_equal(transposed_in_panels(tall, b), expected, "transposed");
}

TEST_F(CpuPanels, NoRows) {
  GappedFloats a(0, 4, 0, 1);
  GappedFloats b(0, 5, 0, 2);
  const GappedFloats c = transposed_in_panels(a, b);
  for (std::size_t k = 0; k < 20; ++k) EXPECT_EQ(c.values[k / 5 * 6 + k % 5], 0.0F) << k;
}

}  // namespace
}  // namespace atl
