// Products of pairs of rows.
#include "kernels/cpu/cpu_backend.hpp"

namespace atl {

void CpuBackend::do_pair_dots(Queue&, ConstMatrixView x, std::span<const LocalId> first,
                              std::span<const LocalId> second, MatrixView out) {
  for_rows(out.rows, x.cols, [&](RowRange range) {
    run_vectorised(isa_, x.dtype, [&](auto element) ATOLL_INLINE {
      using T = decltype(element);
      for (std::int64_t k = range.begin; k < range.end; ++k) {
        const T* const a = x.row<T>(to_index(first[k]));
        const T* const b = x.row<T>(to_index(second[k]));
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (std::int64_t c = 0; c < x.cols; ++c) sum += load(a, c) * load(b, c);
        *out.row<float>(k) = sum;
      }
    });
  });
}

void CpuBackend::do_pair_products(Queue&, ConstMatrixView x, std::span<const LocalId> first,
                                  ConstMatrixView z, std::span<const LocalId> second,
                                  MatrixView y) {
  for_rows(y.rows, x.cols, [&](RowRange range) {
    run_vectorised(isa_, x.dtype, [&](auto element) ATOLL_INLINE {
      using T = decltype(element);
      for (std::int64_t k = range.begin; k < range.end; ++k) {
        const T* const a = x.row<T>(to_index(first[k]));
        const T* const b = z.row<T>(to_index(second[k]));
        T* __restrict to = y.row<T>(k);
#pragma omp simd
        for (std::int64_t c = 0; c < x.cols; ++c) store(to, c, load(a, c) * load(b, c));
      }
    });
  });
}

}  // namespace atl
