#include "kernels/operations/heads.hpp"

#include "base/error.hpp"
#include "kernels/backend.hpp"
#include "kernels/checks.hpp"
#include "kernels/operation_work.hpp"

namespace atl::kernels {

using namespace checks;

void HeadDots::check(const Backend& backend) const {
  check_view(backend, x, "head_dots x");
  check_shape(backend, vector, 1, x.cols, parameter_dtype(x.dtype), "head_dots vector");
  check_shape(backend, out, x.rows, out.cols, parameter_dtype(x.dtype), "head_dots out");
  check_heads(out.cols, x.cols, "head_dots");
  check_disjoint(out, x, "head_dots out and x");
  check_disjoint(out, vector, "head_dots out and vector");
}

SpanWork HeadDots::work(bool) const { return streaming_work({x, out}); }

void HeadDotsBackward::check(const Backend& backend) const {
  check_view(backend, x, "head_dots_backward x");
  check_shape(backend, d, x.rows, d.cols, parameter_dtype(x.dtype), "head_dots_backward d");
  check_heads(d.cols, x.cols, "head_dots_backward");
  check_shape(backend, vector, 1, x.cols, parameter_dtype(x.dtype), "head_dots_backward vector");
  check_shape(backend, dx, x.rows, x.cols, x.dtype, "head_dots_backward dx");
  check_shape(backend, dvector, 1, x.cols, parameter_dtype(x.dtype), "head_dots_backward dvector");
  for (const MatrixView output : {dx, dvector}) {
    for (const ConstMatrixView input : {d, x, vector}) {
      check_disjoint(output, input, "head_dots_backward: an output and an input");
    }
  }
  check_disjoint(dvector, dx, "head_dots_backward dvector and dx");
}

SpanWork HeadDotsBackward::work(bool) const { return streaming_work({d, x, dx}); }

void HeadMean::check(const Backend& backend) const {
  check_view(backend, x, "head_mean x");
  check_shape(backend, y, x.rows, y.cols, x.dtype, "head_mean y");
  check_heads(y.cols, x.cols, "head_mean");
  check_disjoint(y, x, "head_mean y and x");
}

SpanWork HeadMean::work(bool) const { return streaming_work({x, y}); }

void HeadMeanBackward::check(const Backend& backend) const {
  check_view(backend, dy, "head_mean_backward dy");
  check_shape(backend, dx, dy.rows, dx.cols, dy.dtype, "head_mean_backward dx");
  check_heads(dy.cols, dx.cols, "head_mean_backward");
  check_disjoint(dx, dy, "head_mean_backward dx and dy");
}

SpanWork HeadMeanBackward::work(bool) const { return streaming_work({dy, dx}); }

}  // namespace atl::kernels
