// The reductions of CUB that Atoll calls, on the host; stands in for the toolkit's header.
#pragma once

#include <limits>
#include <type_traits>

#include "tests/support/cuda_emulation/library_call.hpp"

namespace cub {

struct DeviceReduce {
  // From the last to the first: callers must not depend on an order.
  template <typename In, typename Out, typename Count, typename Reduce, typename Transform,
            typename T>
  static cudaError_t TransformReduce(void* scratch, size_t& bytes, In in, Out out, Count count,
                                     Reduce reduce, Transform transform, T initial,
                                     cudaStream_t stream = nullptr) {
    return atl::cuda_emulation::library_call(scratch, bytes, stream, [=] {
      T result = initial;
      for (Count i = count; i > 0; --i) result = reduce(result, T(transform(in[i - 1])));
      out[0] = result;
    });
  }

  template <typename In, typename Out, typename Count>
  static cudaError_t Max(void* scratch, size_t& bytes, In in, Out out, Count count,
                         cudaStream_t stream = nullptr) {
    using T = std::remove_cvref_t<decltype(in[0])>;
    return TransformReduce(
        scratch, bytes, in, out, count, [](T a, T b) { return a < b ? b : a; },
        [](T value) { return value; }, std::numeric_limits<T>::lowest(), stream);
  }
};

}  // namespace cub
