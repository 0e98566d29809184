#include "kernels/operations/dense.hpp"

#include "base/error.hpp"
#include "kernels/backend.hpp"
#include "kernels/checks.hpp"
#include "kernels/operation_work.hpp"

namespace atl::kernels {

using namespace checks;

void FillZero::check(const Backend& backend) const { check_view(backend, y, "fill_zero y"); }

SpanWork FillZero::work(bool) const { return streaming_work({y}); }

void Convert::check(const Backend& backend) const {
  check_view(backend, x, "convert x");
  check_shape(backend, y, x.rows, x.cols, y.dtype, "convert y");
  check_disjoint(y, x, "convert y and x");
}

SpanWork Convert::work(bool) const { return streaming_work({x, y}); }

void ApplyEpilogue::check(const Backend& backend) const {
  check_view(backend, x, "epilogue x");
  check_shape(backend, y, x.rows, x.cols, x.dtype, "epilogue y");
  check_same_or_disjoint(y, x, "epilogue y and x");
  if (empty()) return;
  check_epilogue(backend, epilogue, y);
}

SpanWork ApplyEpilogue::work(bool) const { return streaming_work({x, y}); }

void Gemm::check(const Backend& backend) const {
  check_view(backend, a, "gemm a");
  const bool swap_a = transpose_a == Transpose::kYes;
  const bool swap_b = transpose_b == Transpose::kYes;
  const std::int64_t cols = swap_b ? b.rows : b.cols;
  check_shape(backend, b, swap_b ? cols : inner(), swap_b ? inner() : cols, a.dtype, "gemm b");
  const DType wide = parameter_dtype(a.dtype);
  check_shape(backend, c, swap_a ? a.cols : a.rows, cols, c.dtype == wide ? wide : a.dtype,
              "gemm c");
  ATOLL_ASSERT(beta == 0 || beta == 1, "gemm beta {}", beta);
  check_disjoint(c, a, "gemm c and a");
  check_disjoint(c, b, "gemm c and b");
  if (!c.empty()) check_epilogue(backend, epilogue, c);
}

SpanWork Gemm::work(bool) const { return gemm_work(transpose_a, a, b, beta, c); }

void Combine::check(const Backend& backend) const {
  check_view(backend, x, "combine x");
  check_shape(backend, z, x.rows, x.cols, x.dtype, "combine z");
  check_shape(backend, y, x.rows, x.cols, x.dtype, "combine y");
  check_same_or_disjoint(y, x, "combine y and x");
  check_same_or_disjoint(y, z, "combine y and z");
}

SpanWork Combine::work(bool) const { return streaming_work({x, z, y}); }

void Scale::check(const Backend& backend) const {
  check_view(backend, x, "scale x");
  check_shape(backend, factor, 1, 1, parameter_dtype(x.dtype), "scale factor");
  check_shape(backend, y, x.rows, x.cols, x.dtype, "scale y");
  check_same_or_disjoint(y, x, "scale y and x");
  check_disjoint(y, factor, "scale y and factor");
}

SpanWork Scale::work(bool) const { return streaming_work({x, y}); }

void Dot::check(const Backend& backend) const {
  check_view(backend, x, "dot x");
  check_shape(backend, z, x.rows, x.cols, x.dtype, "dot z");
  ATOLL_ASSERT(out.rows == 1 && out.cols == 1 &&
                   (out.dtype == DType::kF64 || out.dtype == parameter_dtype(x.dtype)),
               "dot out of {} x {}, dtype {}", out.rows, out.cols, static_cast<int>(out.dtype));
  check_disjoint(out, x, "dot out and x");
  check_disjoint(out, z, "dot out and z");
}

SpanWork Dot::work(bool) const { return streaming_work({x, z}); }

void Maximum::check(const Backend& backend) const {
  check_view(backend, x, "maximum x");
  check_shape(backend, z, x.rows, x.cols, x.dtype, "maximum z");
  check_shape(backend, y, x.rows, x.cols, x.dtype, "maximum y");
  check_same_or_disjoint(y, x, "maximum y and x");
  check_same_or_disjoint(y, z, "maximum y and z");
}

SpanWork Maximum::work(bool) const { return streaming_work({x, z, y}); }

void MaximumBackward::check(const Backend& backend) const {
  check_view(backend, dy, "maximum_backward dy");
  check_shape(backend, x, dy.rows, dy.cols, dy.dtype, "maximum_backward x");
  check_shape(backend, z, dy.rows, dy.cols, dy.dtype, "maximum_backward z");
  check_shape(backend, dx, dy.rows, dy.cols, dy.dtype, "maximum_backward dx");
  check_same_or_disjoint(dx, dy, "maximum_backward dx and dy");
  check_disjoint(dx, x, "maximum_backward dx and x");
  check_disjoint(dx, z, "maximum_backward dx and z");
}

SpanWork MaximumBackward::work(bool) const { return streaming_work({dy, x, z, dx}); }

void ActivationBackward::check(const Backend& backend) const {
  check_view(backend, dy, "activation_backward dy");
  ATOLL_ASSERT(!activation.absent(), "activation_backward without an activation");
  check_activation(backend, activation, dy);
}

SpanWork ActivationBackward::work(bool) const { return gradient_work(dy, activation); }

void ColumnSums::check(const Backend& backend) const {
  check_view(backend, x, "column_sums x");
  check_shape(backend, out, 1, x.cols, parameter_dtype(x.dtype), "column_sums out");
  check_disjoint(out, x, "column_sums out and x");
  check_activation(backend, activation, x);
  check_sums_through(activation);
  check_disjoint(out, activation.dx, "column_sums out and dx");
}

SpanWork ColumnSums::work(bool) const { return gradient_work(x, activation); }

void SumParts::check(const Backend&) const {
  for (const ConstMatrixView view : {parts, ConstMatrixView(out)}) {
    ATOLL_ASSERT(view.dtype == DType::kF32 || view.dtype == DType::kF64, "sum_parts dtype {}",
                 static_cast<int>(view.dtype));
  }
  ATOLL_ASSERT(parts.rows >= 1 && out.rows == 1 && out.cols == parts.cols &&
                   out.dtype == parts.dtype && parts.stride >= parts.cols,
               "sum_parts: {} x {} into {} x {}", parts.rows, parts.cols, out.rows, out.cols);
  check_disjoint(out, parts, "sum_parts out and parts");
}

SpanWork SumParts::work(bool) const { return streaming_work({parts, out}); }

}  // namespace atl::kernels
