// SpMM.
#include <cstring>

#include "base/error.hpp"
#include "kernels/cpu/cpu_backend.hpp"

namespace atl {

namespace {

constexpr std::int64_t kRowsPerChunk = 64;  // taken dynamically: a hub row costs as much as many
constexpr std::int64_t kEdgesAhead = 16;    // neighbours prefetched before they are needed
constexpr std::int64_t kLine = 64 / sizeof(float);

// y += w0 x0 + w1 x1 + w2 x2 + w3 x3. Four neighbours at a time: the sum in y is loaded and stored
// once per four, and four rows of x are in flight at once.
ATOLL_INLINE inline void add_four(std::int64_t cols, const float* x0, const float* x1,
                                  const float* x2, const float* x3, float w0, float w1, float w2,
                                  float w3, float* __restrict y) {
#pragma omp simd
  for (std::int64_t j = 0; j < cols; ++j) {
    y[j] += (w0 * x0[j] + w1 * x1[j]) + (w2 * x2[j] + w3 * x3[j]);
  }
}

ATOLL_INLINE inline void add_one(std::int64_t cols, const float* x, float w, float* __restrict y) {
#pragma omp simd
  for (std::int64_t j = 0; j < cols; ++j) y[j] += w * x[j];
}

// The operator in plain pointers; absent factors are null.
struct SpmmArguments {
  const std::int64_t* row_ptr;
  const std::int32_t* col_idx;
  const float* values;
  const float* row_scale;
  const float* col_scale;
  const float* self_weight;
  const float* x;
  std::int64_t x_stride;
  float* y;
  std::int64_t y_stride;
  std::int64_t cols;
  std::int64_t nnz;
};

ATOLL_INLINE inline void prefetch_row(const float* row, std::int64_t cols) {
  for (std::int64_t j = 0; j < cols; j += kLine) __builtin_prefetch(row + j);
}

// Rows [range) of y = S x, or of y += S x. Whether the edges have weights is known at compile time,
// so that an operator without values and column scale loads nothing per edge but the index. A sum
// in y that also holds what was there can't be scaled at the end: then each weight is.
template <bool kValues, bool kColScale, bool kAccumulate>
ATOLL_INLINE inline void spmm_rows(const SpmmArguments a, RowRange range) {
  for (std::int64_t i = range.begin; i < range.end; ++i) {
    float* y = a.y + i * a.y_stride;
    const float row_scale = a.row_scale == nullptr ? 1.0F : a.row_scale[i];
    const auto weight = [&](std::int64_t e) ATOLL_INLINE {
      float w = 1;
      if constexpr (kValues) w = a.values[e];
      if constexpr (kColScale) w *= a.col_scale[a.col_idx[e]];
      if constexpr (kAccumulate) w *= row_scale;
      return w;
    };
    const auto source = [&](std::int64_t e)
                            ATOLL_INLINE { return a.x + a.col_idx[e] * a.x_stride; };
    if constexpr (!kAccumulate) std::memset(y, 0, static_cast<std::size_t>(a.cols) * sizeof(float));
    // Without self weight the row itself is not read: it may hold anything.
    if (const float self = a.self_weight == nullptr ? 0.0F : a.self_weight[i]; self != 0.0F) {
      const float scaled = kColScale ? self * a.col_scale[i] : self;
      add_one(a.cols, a.x + i * a.x_stride, kAccumulate ? scaled * row_scale : scaled, y);
    }
    const std::int64_t end = a.row_ptr[i + 1];
    std::int64_t e = a.row_ptr[i];
    for (; e + 4 <= end; e += 4) {
      for (std::int64_t k = 0; k < 4; ++k) {
        if (e + kEdgesAhead + k < a.nnz) prefetch_row(source(e + kEdgesAhead + k), a.cols);
      }
      add_four(a.cols, source(e), source(e + 1), source(e + 2), source(e + 3), weight(e),
               weight(e + 1), weight(e + 2), weight(e + 3), y);
    }
    for (; e < end; ++e) {
      if (e + kEdgesAhead < a.nnz) prefetch_row(source(e + kEdgesAhead), a.cols);
      add_one(a.cols, source(e), weight(e), y);
    }
    if (!kAccumulate && a.row_scale != nullptr) {
#pragma omp simd
      for (std::int64_t j = 0; j < a.cols; ++j) y[j] *= row_scale;
    }
  }
}

template <bool kAccumulate>
ATOLL_INLINE inline void spmm_rows(const SpmmArguments& a, RowRange range) {
  const bool values = a.values != nullptr;
  const bool col_scale = a.col_scale != nullptr;
  if (values && col_scale) return spmm_rows<true, true, kAccumulate>(a, range);
  if (values) return spmm_rows<true, false, kAccumulate>(a, range);
  if (col_scale) return spmm_rows<false, true, kAccumulate>(a, range);
  spmm_rows<false, false, kAccumulate>(a, range);
}

template <typename T>
const T* pointer(std::span<const T> values) {
  return values.empty() ? nullptr : values.data();
}

}  // namespace

void CpuBackend::do_spmm(Queue&, const SparseOperator& op, RowRange rows, ConstMatrixView x,
                         double beta, MatrixView y, const Epilogue& epilogue) {
  const SpmmArguments arguments{op.row_ptr.data(),
                                op.col_idx.data(),
                                pointer(op.values),
                                pointer(op.row_scale),
                                pointer(op.col_scale),
                                pointer(op.self_weight),
                                x.row<float>(0),
                                x.stride,
                                y.row<float>(0),
                                y.stride,
                                x.cols,
                                static_cast<std::int64_t>(op.col_idx.size())};
  const bool plain = epilogue.identity();
  const ColumnEpilogue columns =
      column_epilogue(epilogue, plain ? 0 : x.cols, scratch<float>(kColumnFactors * x.cols));
  const MatrixView part = y.rows_in(rows);
  for_chunks(rows.size(), kRowsPerChunk, [&](RowRange range) {
    const RowRange absolute{rows.begin + range.begin, rows.begin + range.end};
    run_vectorised(isa_, [&]() ATOLL_INLINE {
      if (beta == 0) return spmm_rows<false>(arguments, absolute);
      spmm_rows<true>(arguments, absolute);
    });
    if (!plain) apply_to_rows(columns, range, part, part);
  });
}

}  // namespace atl
