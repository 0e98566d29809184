// Products and means by heads.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "kernels/checks.hpp"
#include "kernels/operation_work.hpp"

namespace atl::kernels {

// out[i, h] = <x[i, slice h], vector[slice h]>, summed in f32 or wider. x [N, H C], vector
// [1, H C], out [N, H], the latter two of the parameters' type.
struct HeadDots {
  static constexpr const char* kName = "head_dots";
  ConstMatrixView x;
  ConstMatrixView vector;
  MatrixView out;

  bool empty() const { return out.empty() || x.cols == 0; }
  void check(const BackendTraits& backend) const {
    check_view(backend, x, "head_dots x");
    check_shape(backend, vector, 1, x.cols, parameter_dtype(x.dtype), "head_dots vector");
    check_shape(backend, out, x.rows, out.cols, parameter_dtype(x.dtype), "head_dots out");
    check_heads(out.cols, x.cols, "head_dots");
    check_disjoint({out}, {x, vector}, "head_dots out and an input");
  }
  SpanWork work(bool) const { return streaming_work({x, out}); }
  std::array<MatrixView, 1> zeroed() const { return {out}; }
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
  void check(const BackendTraits& backend) const {
    check_view(backend, x, "head_dots_backward x");
    check_shape(backend, d, x.rows, d.cols, parameter_dtype(x.dtype), "head_dots_backward d");
    check_heads(d.cols, x.cols, "head_dots_backward");
    check_shape(backend, vector, 1, x.cols, parameter_dtype(x.dtype), "head_dots_backward vector");
    check_shape(backend, dx, x.rows, x.cols, x.dtype, "head_dots_backward dx");
    check_shape(backend, dvector, 1, x.cols, parameter_dtype(x.dtype),
                "head_dots_backward dvector");
    check_disjoint({dx, dvector}, {d, x, vector}, "head_dots_backward: an output and an input");
    check_disjoint(dvector, dx, "head_dots_backward dvector and dx");
  }
  SpanWork work(bool) const { return streaming_work({d, x, dx}); }
};

// y[i, c] = sum_h x[i, h C + c] / H, and its gradient dx[i, h C + c] = dy[i, c] / H. x, dx
// [N, H C], y, dy [N, C].
struct HeadMean {
  static constexpr const char* kName = "head_mean";
  ConstMatrixView x;
  MatrixView y;

  bool empty() const { return x.empty(); }
  void check(const BackendTraits& backend) const {
    check_view(backend, x, "head_mean x");
    check_shape(backend, y, x.rows, y.cols, x.dtype, "head_mean y");
    check_heads(y.cols, x.cols, "head_mean");
    check_disjoint(y, x, "head_mean y and x");
  }
  SpanWork work(bool) const { return streaming_work({x, y}); }
};

struct HeadMeanBackward {
  static constexpr const char* kName = "head_mean_backward";
  ConstMatrixView dy;
  MatrixView dx;

  bool empty() const { return dx.empty(); }
  void check(const BackendTraits& backend) const {
    check_view(backend, dy, "head_mean_backward dy");
    check_shape(backend, dx, dy.rows, dx.cols, dy.dtype, "head_mean_backward dx");
    check_heads(dy.cols, dx.cols, "head_mean_backward");
    check_disjoint(dx, dy, "head_mean_backward dx and dy");
  }
  SpanWork work(bool) const { return streaming_work({dy, dx}); }
};

}  // namespace atl::kernels
