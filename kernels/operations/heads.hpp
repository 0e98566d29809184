// Products and means by heads.
#pragma once

#include <cstdint>
#include <span>

#include "base/trace.hpp"
#include "kernels/operations/dense.hpp"

namespace atl {

class Backend;

namespace kernels {

// out[i, h] = <x[i, slice h], vector[slice h]>, summed in f32 or wider. x [N, H C], vector
// [1, H C], out [N, H], the latter two of the parameters' type.
struct HeadDots {
  static constexpr const char* kName = "head_dots";
  ConstMatrixView x;
  ConstMatrixView vector;
  MatrixView out;

  bool empty() const { return out.empty() || x.cols == 0; }
  void check(const Backend& backend) const;
  SpanWork work(bool host_readable) const;
  // Sums of no columns are 0.
  template <typename Compute>
  void compute_by(const Compute& compute) const {
    if (!empty()) return compute(*this);
    if (!out.empty()) compute(FillZero{out});
  }
};

// Its gradients: dx[i, slice h] = d[i, h] vector[slice h]; dvector[slice h] += sum_i d[i, h]
// x[i, slice h], summed in double. d [N, H] and dvector [1, H C] of the parameters' type.
struct HeadDotsBackward {
  static constexpr const char* kName = "head_dots_backward";
  ConstMatrixView d;
  ConstMatrixView x;
  ConstMatrixView vector;
  MatrixView dx;
  MatrixView dvector;

  bool empty() const { return x.empty(); }
  void check(const Backend& backend) const;
  SpanWork work(bool host_readable) const;
};

// y[i, c] = sum_h x[i, h C + c] / H, and its gradient dx[i, h C + c] = dy[i, c] / H. x, dx
// [N, H C], y, dy [N, C].
struct HeadMean {
  static constexpr const char* kName = "head_mean";
  ConstMatrixView x;
  MatrixView y;

  bool empty() const { return x.empty(); }
  void check(const Backend& backend) const;
  SpanWork work(bool host_readable) const;
};

struct HeadMeanBackward {
  static constexpr const char* kName = "head_mean_backward";
  ConstMatrixView dy;
  MatrixView dx;

  bool empty() const { return dx.empty(); }
  void check(const Backend& backend) const;
  SpanWork work(bool host_readable) const;
};

}  // namespace kernels

}  // namespace atl
