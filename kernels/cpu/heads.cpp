// The small operations on heads: inner products with a vector and means.
#include <algorithm>

#include "kernels/cpu/column_sums.hpp"
#include "kernels/cpu/cpu_backend.hpp"

namespace atl {

void kernel(CpuBackend& backend, Queue&, const kernels::HeadDots& call) {
  const auto& [x, vector, out] = call;
  const std::int64_t each = x.cols / out.cols;
  backend.for_rows(x.rows, x.cols, [&](RowRange range) {
    run_vectorised(backend.isa(), x.dtype, [&](auto element) ATOLL_INLINE {
      using T = decltype(element);
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        for (std::int64_t h = 0; h < out.cols; ++h) {
          const T* const row = x.row<T>(i) + h * each;
          const float* const factors = vector.row<float>(0) + h * each;
          float sum = 0;
#pragma omp simd reduction(+ : sum)
          for (std::int64_t c = 0; c < each; ++c) sum += load(row, c) * factors[c];
          out.row<float>(i)[h] = sum;
        }
      }
    });
  });
}

void kernel(CpuBackend& backend, Queue&, const kernels::HeadDotsBackward& call) {
  const auto& [d, x, vector, dx, dvector] = call;
  const std::int64_t each = x.cols / d.cols;
  const auto sums =
      backend.sum_chunks(x.rows, x.cols, x.cols, [&](RowRange range, double* partial) {
        run_vectorised(backend.isa(), x.dtype, [&](auto element) ATOLL_INLINE {
          using T = decltype(element);
          for (std::int64_t i = range.begin; i < range.end; ++i) {
            for (std::int64_t h = 0; h < d.cols; ++h) {
              const float gradient = d.row<float>(i)[h];
              const T* const row = x.row<T>(i) + h * each;
              T* const to = dx.row<T>(i) + h * each;
              const float* const factors = vector.row<float>(0) + h * each;
              double* const sum = partial + h * each;
#pragma omp simd
              for (std::int64_t c = 0; c < each; ++c) {
                store(to, c, gradient * factors[c]);
                sum[c] += static_cast<double>(gradient) * static_cast<double>(load(row, c));
              }
            }
          }
        });
      });
  add_to_row(sums, dvector);
}

void kernel(CpuBackend& backend, Queue&, const kernels::HeadMean& call) {
  const auto& [x, y] = call;
  const std::int64_t heads = x.cols / y.cols;
  const float share = 1 / static_cast<float>(heads);
  backend.for_rows(x.rows, x.cols, [&](RowRange range) {
    WideRows memory(1, y.cols);
    run_vectorised(backend.isa(), x.dtype, [&](auto element) ATOLL_INLINE {
      using T = decltype(element);
      float* __restrict const sums = memory.row(0);
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        std::fill_n(sums, y.cols, 0.0F);
        for (std::int64_t h = 0; h < heads; ++h) {
          const T* const row = x.row<T>(i) + h * y.cols;
#pragma omp simd
          for (std::int64_t c = 0; c < y.cols; ++c) sums[c] += load(row, c);
        }
        T* const to = y.row<T>(i);
#pragma omp simd
        for (std::int64_t c = 0; c < y.cols; ++c) store(to, c, sums[c] * share);
      }
    });
  });
}

void kernel(CpuBackend& backend, Queue&, const kernels::HeadMeanBackward& call) {
  const auto& [dy, dx] = call;
  const std::int64_t heads = dx.cols / dy.cols;
  const float share = 1 / static_cast<float>(heads);
  backend.for_rows(dx.rows, dx.cols, [&](RowRange range) {
    run_vectorised(backend.isa(), dy.dtype, [&](auto element) ATOLL_INLINE {
      using T = decltype(element);
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        const T* const from = dy.row<T>(i);
        for (std::int64_t h = 0; h < heads; ++h) {
          T* const to = dx.row<T>(i) + h * dy.cols;
#pragma omp simd
          for (std::int64_t c = 0; c < dy.cols; ++c) store(to, c, load(from, c) * share);
        }
      }
    });
  });
}

}  // namespace atl
