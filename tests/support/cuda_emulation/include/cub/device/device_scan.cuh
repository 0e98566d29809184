// The scans of CUB that Atoll calls, on the host; stands in for the toolkit's header.
#pragma once

#include "tests/support/cuda_emulation/library_call.hpp"

namespace cub {

struct DeviceScan {
  // In place where `out` is `in`, as in the toolkit.
  template <typename In, typename Out, typename Count>
  static cudaError_t InclusiveSum(void* scratch, size_t& bytes, In in, Out out, Count count,
                                  cudaStream_t stream = nullptr) {
    return atl::cuda_emulation::library_call(scratch, bytes, stream, [=] {
      if (count == 0) return;
      auto sum = in[0];
      out[0] = sum;
      for (Count i = 1; i < count; ++i) out[i] = sum = sum + in[i];
    });
  }
};

}  // namespace cub
