// One factor lies in panels, the entries of 32 columns side by side for each step of the sums: 14
// rows by 32 columns of the result are summed in 28 registers. Every sum takes its terms in their
// order, as oneDNN's do.
#include "kernels/cpu/panels.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "kernels/cpu/elements.hpp"
#include "kernels/cpu/product.hpp"
#include "kernels/cpu/row_prefetch.hpp"
#include "kernels/cpu/vectors.hpp"

namespace atl {

namespace {

constexpr std::int64_t kLanes = Vectors<64>::kLanes;
constexpr std::int64_t kPanelCols = 2 * kLanes;
constexpr int kPanelRows = 14;
constexpr std::int64_t kStepsPerFetch = 8;  // of a sum

// The left factor: entry (i, k) at from[i * along + k * step].
struct LeftFactor {
  const float* from;
  std::int64_t along;
  std::int64_t step;
};

// Columns of a panel from column `first` on: all, or what is left in whole vectors.
std::int64_t panel_columns(std::int64_t cols, std::int64_t first) {
  return cols - first > kLanes ? kPanelCols : kLanes;
}

// c (kRows x cols, at most kVectors vectors wide) = left * panel, or that and what c was.
template <int kRows, int kVectors, int kStep>
ATOLL_INLINE inline void sum_block(const LeftFactor& left, const float* panel, std::int64_t inner,
                                   bool add, RowsAhead& ahead, RowsAhead& ahead_of_c,
                                   std::int64_t cols, float* c, std::int64_t c_stride) {
  using Floats = typename Vectors<64>::Floats;
  Floats sums[kRows][kVectors] = {};
  // Five rows to a pointer: an address is made of one and of one to four strides.
  const std::int64_t along = left.along;
  const float* base[3] = {left.from, left.from + (kRows > 5 ? 5 : 0) * along,
                          left.from + (kRows > 10 ? 10 : 0) * along};
  for (std::int64_t k = 0; k < inner;) {
    ahead.fetch();
    ahead_of_c.fetch();
    for (const std::int64_t end = std::min(k + kStepsPerFetch, inner); k < end; ++k) {
      Floats columns[kVectors];
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) std::memcpy(&columns[v], panel + v * kLanes, 64);
#pragma GCC unroll 14
      for (int i = 0; i < kRows; ++i) {
        const float entry = base[i / 5][i % 5 * along];
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) sums[i][v] += entry * columns[v];
      }
      panel += kVectors * kLanes;
      base[0] += kStep;
      base[1] += kStep;
      base[2] += kStep;
    }
  }
  const auto store_row = [&](int i, float* to) ATOLL_INLINE {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      Floats value = sums[i][v];
      if (add) {
        Floats before;
        std::memcpy(&before, to + v * kLanes, 64);
        value += before;
      }
      std::memcpy(to + v * kLanes, &value, 64);
    }
  };
#pragma GCC unroll 14
  for (int i = 0; i < kRows; ++i) {
    float* const row = c + i * c_stride;
    if (cols == kVectors * kLanes) {
      store_row(i, row);
    } else {
      float part[kVectors * kLanes] = {};
      if (add) std::memcpy(part, row, static_cast<std::size_t>(cols) * sizeof(float));
      store_row(i, part);
      std::memcpy(row, part, static_cast<std::size_t>(cols) * sizeof(float));
    }
  }
}

// The same for up to kRows rows and, if there are more than in one block, the rest in smaller ones.
template <int kRows, int kVectors, int kStep>
ATOLL_INLINE inline void sum_rows(LeftFactor left, std::int64_t rows, const float* panel,
                                  std::int64_t inner, bool add, RowsAhead& ahead,
                                  RowsAhead& ahead_of_c, std::int64_t cols, float* c,
                                  std::int64_t c_stride) {
  if (rows >= kRows) {
    sum_block<kRows, kVectors, kStep>(left, panel, inner, add, ahead, ahead_of_c, cols, c,
                                      c_stride);
    rows -= kRows;
    left.from += kRows * left.along;
    c += kRows * c_stride;
  }
  if constexpr (kRows > 1) {
    if (rows == 0) return;
    constexpr int kFewer = kRows == kPanelRows ? 8 : kRows / 2;
    sum_rows<kFewer, kVectors, kStep>(left, rows, panel, inner, add, ahead, ahead_of_c, cols, c,
                                      c_stride);
  }
}

// c = left * all panels, or that and what c was, for at most kPanelRows rows.
template <int kStep>
ATOLL_INLINE inline void sum_strip(const LeftFactor& left, const float* panel, std::int64_t inner,
                                   bool add, RowsAhead& ahead, RowsAhead& ahead_of_c,
                                   MatrixView c) {
  for (std::int64_t first = 0; first < c.cols; first += kPanelCols) {
    const std::int64_t columns = panel_columns(c.cols, first);
    const std::int64_t cols = std::min(columns, c.cols - first);
    float* const to = c.row<float>(0) + first;
    if (columns == kPanelCols) {
      sum_rows<kPanelRows, 2, kStep>(left, c.rows, panel, inner, add, ahead, ahead_of_c, cols, to,
                                     c.stride);
    } else {
      sum_rows<kPanelRows, 1, kStep>(left, c.rows, panel, inner, add, ahead, ahead_of_c, cols, to,
                                     c.stride);
    }
    panel += columns * inner;
  }
}

std::int64_t fetches(std::int64_t inner, std::int64_t cols) {
  const std::int64_t panels = (cols + kPanelCols - 1) / kPanelCols;
  return std::max<std::int64_t>(1, panels * ((inner + kStepsPerFetch - 1) / kStepsPerFetch));
}

// How many of the `left` terms of a sum the next part of it takes: as oneDNN cuts them.
std::int64_t next_part(std::int64_t left) {
  if (left >= 2 * kMostInner) return kMostInner;
  return left > kMostInner ? (left + 1) / 2 : left;
}

std::int64_t strip_floats(std::int64_t cols) {
  return (cols + kPanelRows - 1) / kPanelRows * kPanelRows * kMostInner;
}

}  // namespace

std::int64_t panel_floats(std::int64_t inner, std::int64_t cols) {
  return (cols + kLanes - 1) / kLanes * kLanes * inner;
}

void store_as_panels(Transpose transpose, ConstMatrixView b, float* to) {
  const bool turned = transpose == Transpose::kYes;
  const std::int64_t inner = factor_shape(transpose, b).inner;
  const std::int64_t cols = factor_shape(transpose, b).cols;
  with_element(b.dtype, [&]<typename T>(T) {
    for (std::int64_t first = 0; first < cols; first += kPanelCols) {
      const std::int64_t columns = panel_columns(cols, first);
      const std::int64_t count = std::min(columns, cols - first);
      for (std::int64_t k = 0; k < inner; ++k, to += columns) {
        for (std::int64_t j = 0; j < count; ++j) {
          to[j] = turned ? load(b.row<T>(first + j), k) : load(b.row<T>(k), first + j);
        }
        std::fill(to + count, to + columns, 0.0F);
      }
    }
  });
}

std::int64_t transposed_panels_floats(std::int64_t a_cols, std::int64_t b_cols) {
  return panel_floats(kMostInner, b_cols) + strip_floats(a_cols);
}

#if defined(__x86_64__)

namespace {

// As store_as_panels, one row after the other: as they come from memory.
void store_rows_as_panels(ConstMatrixView x, float* to) {
  const std::int64_t whole = x.cols / kPanelCols * kPanelCols;
  const std::int64_t columns = x.cols > whole ? panel_columns(x.cols, whole) : 0;
  float* const last = to + whole * x.rows;
  run_avx512([&]() ATOLL_INLINE {
    for (std::int64_t k = 0; k < x.rows; ++k) {
      const float* const row = x.row<float>(k);
      for (std::int64_t first = 0; first < whole; first += kPanelCols) {
        std::memcpy(to + first * x.rows + k * kPanelCols, row + first, kPanelCols * sizeof(float));
      }
      std::fill(last + k * columns, last + (k + 1) * columns, 0.0F);
      std::copy(row + whole, row + x.cols, last + k * columns);
    }
  });
}

// Strips of kPanelRows columns of x, one behind the other.
void store_rows_as_strips(ConstMatrixView x, float* to) {
  run_avx512([&]() ATOLL_INLINE {
    for (std::int64_t k = 0; k < x.rows; ++k) {
      const float* const row = x.row<float>(k);
      float* strip = to + k * kPanelRows;
      std::int64_t first = 0;
      for (; first + kPanelRows <= x.cols; first += kPanelRows, strip += kPanelRows * x.rows) {
        std::memcpy(strip, row + first, kPanelRows * sizeof(float));
      }
      std::copy(row + first, row + x.cols, strip);
    }
  });
}

}  // namespace

void multiply_panels(ConstMatrixView a, const float* panels, double beta, MatrixView c) {
  ATOLL_ASSERT(a.cols <= kMostInner);
  const std::int64_t steps = fetches(a.cols, c.cols);
  for (std::int64_t begin = 0; begin < c.rows; begin += kPanelRows) {
    const RowRange rows{begin, std::min(begin + kPanelRows, c.rows)};
    const RowRange next{rows.end, std::min(rows.end + kPanelRows, c.rows)};
    RowsAhead ahead(a.rows_in(next), steps);
    RowsAhead ahead_of_c(c.rows_in(next), steps);
    run_avx512([&]() ATOLL_INLINE {
      sum_strip<1>({a.row<float>(begin), a.stride, 1}, panels, a.cols, beta != 0, ahead, ahead_of_c,
                   c.rows_in(rows));
    });
  }
}

void multiply_transposed_panels(ConstMatrixView a, ConstMatrixView b, float* memory, MatrixView c) {
  float* const panels = memory;
  float* const strips = panels + panel_floats(kMostInner, b.cols);
  std::int64_t begin = 0;
  do {
    const RowRange rows{begin, begin + next_part(a.rows - begin)};
    const RowRange next{rows.end, rows.end + next_part(a.rows - rows.end)};
    store_rows_as_panels(b.rows_in(rows), panels);
    store_rows_as_strips(a.rows_in(rows), strips);
    const std::int64_t steps =
        fetches(rows.size(), b.cols) * ((a.cols + kPanelRows - 1) / kPanelRows);
    RowsAhead ahead(a.rows_in(next), steps);
    RowsAhead ahead_of_b(b.rows_in(next), steps);
    for (std::int64_t m = 0; m < a.cols; m += kPanelRows) {
      const RowRange strip{m, std::min(m + kPanelRows, a.cols)};
      run_avx512([&]() ATOLL_INLINE {
        sum_strip<kPanelRows>({strips + m * rows.size(), 1, kPanelRows}, panels, rows.size(),
                              begin > 0, ahead, ahead_of_b, c.rows_in(strip));
      });
    }
    begin = rows.end;
  } while (begin < a.rows);
}

#else

void multiply_panels(ConstMatrixView, const float*, double, MatrixView) { ATOLL_ASSERT(false); }
void multiply_transposed_panels(ConstMatrixView, ConstMatrixView, float*, MatrixView) {
  ATOLL_ASSERT(false);
}

#endif

}  // namespace atl
