// A step of the optimizer.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/checks.hpp"
#include "kernels/operation_work.hpp"

namespace atl::kernels {

// One step of Adam over flat arrays of equal length, all [1, n]; parameter, m and v are updated.
struct AdamStep {
  static constexpr const char* kName = "adam_step";
  AdamSpec spec;
  MatrixView parameters;
  ConstMatrixView gradients;
  MatrixView m;
  MatrixView v;

  bool empty() const { return parameters.cols == 0; }
  void check(const BackendTraits& backend) const {
    check_view(backend, parameters, "adam_step parameters");
    const std::int64_t n = parameters.cols;
    for (const ConstMatrixView array :
         {ConstMatrixView(parameters), gradients, ConstMatrixView(m), ConstMatrixView(v)}) {
      check_shape(backend, array, 1, n, parameters.dtype, "adam_step arrays");
    }
    check_disjoint({parameters, m, v}, {gradients}, "adam_step: an output and gradients");
    check_disjoint({parameters}, {m, v}, "adam_step parameters and m or v");
    check_disjoint(m, v, "adam_step m and v");
    ATOLL_ASSERT(parameters.dtype != DType::kBf16 && spec.state != nullptr, "adam_step spec");
    std::int64_t covered = 0;
    for (const AdamSegment& segment : spec.segments) {
      ATOLL_ASSERT(segment.begin == covered && segment.end >= segment.begin,
                   "adam_step segment {}..{} after {}", segment.begin, segment.end, covered);
      covered = segment.end;
    }
    ATOLL_ASSERT(covered == n, "adam_step segments cover {} of {}", covered, n);
  }
  SpanWork work(bool) const {
    return streaming_work({parameters, gradients, m, v, parameters, m, v});
  }
};

}  // namespace atl::kernels
