// A step of the optimizer.
#pragma once

#include <cstdint>
#include <span>

#include "base/trace.hpp"
#include "kernels/views.hpp"

namespace atl {

class Backend;

namespace kernels {

// One step of Adam over flat arrays of equal length, all [1, n]; parameter, m and v are updated.
struct AdamStep {
  static constexpr const char* kName = "adam_step";
  AdamSpec spec;
  MatrixView parameters;
  ConstMatrixView gradients;
  MatrixView m;
  MatrixView v;

  bool empty() const { return parameters.cols == 0; }
  void check(const Backend& backend) const;
  SpanWork work(bool host_readable) const;
};

}  // namespace kernels

}  // namespace atl
