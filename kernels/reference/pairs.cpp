#include "kernels/reference/elements.hpp"
#include "kernels/reference/reference_backend.hpp"

namespace atl {

void kernel(ReferenceBackend&, Queue&, const kernels::PairDots& call) {
  const auto& [x, first, second, out] = call;
  with_value_type(x.dtype, [&]<typename T>(T) {
    for (std::int64_t k = 0; k < out.rows; ++k) {
      const std::int64_t i = to_index(first[k]);
      const std::int64_t j = to_index(second[k]);
      ATOLL_ASSERT(0 <= i && i < x.rows && 0 <= j && j < x.rows, "pair {}, {} of {} rows", i, j,
                   x.rows);
      double sum = 0;
      for (std::int64_t c = 0; c < x.cols; ++c) sum += at<T>(x, i, c) * at<T>(x, j, c);
      set<Parameter<T>>(out, k, 0, sum);
    }
  });
}

void kernel(ReferenceBackend&, Queue&, const kernels::PairProducts& call) {
  const auto& [x, first, z, second, y] = call;
  with_value_type(x.dtype, [&]<typename T>(T) {
    for (std::int64_t k = 0; k < y.rows; ++k) {
      const std::int64_t i = to_index(first[k]);
      const std::int64_t j = to_index(second[k]);
      ATOLL_ASSERT(0 <= i && i < x.rows && 0 <= j && j < z.rows, "pair {}, {} of {} and {} rows", i,
                   j, x.rows, z.rows);
      for (std::int64_t c = 0; c < x.cols; ++c) set<T>(y, k, c, at<T>(x, i, c) * at<T>(z, j, c));
    }
  });
}

}  // namespace atl
