// Products of pairs of rows.
#include "kernels/cpu/cpu_backend.hpp"

namespace atl {

void kernel(CpuBackend& backend, Queue&, const kernels::PairDots& call) {
  const auto& [x, first, second, out] = call;
  backend.for_rows(out.rows, x.cols, [&](RowRange range) {
    run_vectorised(backend.isa(), x.dtype, [&](auto element) ATOLL_INLINE {
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

void kernel(CpuBackend& backend, Queue&, const kernels::PairProducts& call) {
  const auto& [x, first, z, second, y] = call;
  backend.for_rows(y.rows, x.cols, [&](RowRange range) {
    run_vectorised(backend.isa(), x.dtype, [&](auto element) ATOLL_INLINE {
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
