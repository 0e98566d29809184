// Dense matrices: fills, conversions, products, sums, and what is done element by element.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "kernels/checks.hpp"
#include "kernels/operation_work.hpp"

namespace atl::kernels {

struct FillZero {
  static constexpr const char* kName = "fill_zero";
  MatrixView y;

  bool empty() const { return y.empty(); }
  void check(const BackendTraits& backend) const { check_view(backend, y, "fill_zero y"); }
  SpanWork work(bool) const { return streaming_work({y}); }
};

// y = x in the type of y, rounded to nearest even.
struct Convert {
  static constexpr const char* kName = "convert";
  ConstMatrixView x;
  MatrixView y;

  bool empty() const { return x.empty(); }
  void check(const BackendTraits& backend) const {
    check_view(backend, x, "convert x");
    check_shape(backend, y, x.rows, x.cols, y.dtype, "convert y");
    check_disjoint(y, x, "convert y and x");
  }
  SpanWork work(bool) const { return streaming_work({x, y}); }
};

// y = epilogue(x); y may be x.
struct ApplyEpilogue {
  static constexpr const char* kName = "apply_epilogue";
  ConstMatrixView x;
  Epilogue epilogue;
  MatrixView y;

  bool empty() const { return x.empty(); }
  void check(const BackendTraits& backend) const {
    check_view(backend, x, "epilogue x");
    check_shape(backend, y, x.rows, x.cols, x.dtype, "epilogue y");
    check_same_or_disjoint(y, x, "epilogue y and x");
    if (empty()) return;
    check_epilogue(backend, epilogue, y);
  }
  SpanWork work(bool) const { return streaming_work({x, y}); }
};

// c = epilogue(op(a) op(b) + beta * c), beta 0 or 1 (0 ignores what c held, NaN included). c has
// the type of a, or parameter_dtype() of it.
struct Gemm {
  static constexpr const char* kName = "gemm";
  Transpose transpose_a = Transpose::kNo;
  ConstMatrixView a;
  Transpose transpose_b = Transpose::kNo;
  ConstMatrixView b;
  double beta = 0;
  MatrixView c;
  Epilogue epilogue = {};

  std::int64_t inner() const { return transpose_a == Transpose::kYes ? a.rows : a.cols; }
  bool empty() const { return c.empty(); }
  void check(const BackendTraits& backend) const {
    check_view(backend, a, "gemm a");
    const bool swap_a = transpose_a == Transpose::kYes;
    const bool swap_b = transpose_b == Transpose::kYes;
    const std::int64_t cols = swap_b ? b.rows : b.cols;
    check_shape(backend, b, swap_b ? cols : inner(), swap_b ? inner() : cols, a.dtype, "gemm b");
    const DType wide = parameter_dtype(a.dtype);
    check_shape(backend, c, swap_a ? a.cols : a.rows, cols, c.dtype == wide ? wide : a.dtype,
                "gemm c");
    ATOLL_ASSERT(beta == 0 || beta == 1, "gemm beta {}", beta);
    check_disjoint({c}, {a, b}, "gemm c and an input");
    if (!c.empty()) check_epilogue(backend, epilogue, c);
  }
  SpanWork work(bool) const { return gemm_work(transpose_a, a, b, beta, c); }
  // Sums of no products are 0.
  template <typename Compute>
  void compute_by(const Compute& compute) const {
    if (inner() > 0) return compute(*this);
    if (beta == 0) compute(FillZero{c});
    if (!epilogue.identity()) compute(ApplyEpilogue{c, epilogue, c});
  }
};

// y = a * x + b * z, in f32 and rounded once. All of one shape; y may be x or z.
struct Combine {
  static constexpr const char* kName = "combine";
  float a = 0;
  ConstMatrixView x;
  float b = 0;
  ConstMatrixView z;
  MatrixView y;

  bool empty() const { return x.empty(); }
  void check(const BackendTraits& backend) const {
    check_view(backend, x, "combine x");
    check_shape(backend, z, x.rows, x.cols, x.dtype, "combine z");
    check_shape(backend, y, x.rows, x.cols, x.dtype, "combine y");
    check_same_or_disjoint(y, x, "combine y and x");
    check_same_or_disjoint(y, z, "combine y and z");
  }
  SpanWork work(bool) const { return streaming_work({x, z, y}); }
};

// y = e x with the number e that lies in `factor` [1, 1], of the parameters' type; y may be x.
struct Scale {
  static constexpr const char* kName = "scale";
  ConstMatrixView x;
  ConstMatrixView factor;
  MatrixView y;

  bool empty() const { return x.empty(); }
  void check(const BackendTraits& backend) const {
    check_view(backend, x, "scale x");
    check_shape(backend, factor, 1, 1, parameter_dtype(x.dtype), "scale factor");
    check_shape(backend, y, x.rows, x.cols, x.dtype, "scale y");
    check_same_or_disjoint(y, x, "scale y and x");
    check_disjoint(y, factor, "scale y and factor");
  }
  SpanWork work(bool) const { return streaming_work({x, y}); }
};

// out = sum_ij x[i, j] z[i, j] + (accumulate ? out : 0), summed in double. x may be z. out
// [1, 1], of the parameters' type or f64.
struct Dot {
  static constexpr const char* kName = "dot";
  ConstMatrixView x;
  ConstMatrixView z;
  bool accumulate = false;
  MatrixView out;

  bool empty() const { return x.empty(); }
  void check(const BackendTraits& backend) const {
    check_view(backend, x, "dot x");
    check_shape(backend, z, x.rows, x.cols, x.dtype, "dot z");
    ATOLL_ASSERT(out.rows == 1 && out.cols == 1 &&
                     (out.dtype == DType::kF64 || out.dtype == parameter_dtype(x.dtype)),
                 "dot out of {} x {}, dtype {}", out.rows, out.cols, static_cast<int>(out.dtype));
    check_disjoint({out}, {x, z}, "dot out and an input");
  }
  SpanWork work(bool) const { return streaming_work({x, z}); }
  std::array<MatrixView, 1> zeroed() const { return {accumulate ? MatrixView{} : out}; }
  // A long row is cut, so that threads can share it.
  template <typename Compute>
  void compute_by(const Compute& compute) const {
    constexpr std::int64_t kCols = 256;
    const std::int64_t whole = x.rows == 1 ? x.cols / kCols * kCols : 0;
    if (whole == 0) return compute(*this);
    const auto cut = [](ConstMatrixView view, std::int64_t first, std::int64_t rows,
                        std::int64_t cols) -> ConstMatrixView {
      const auto* data = static_cast<const std::byte*>(view.data) + first * bytes_of(view.dtype);
      return {data, rows, cols, cols, view.dtype};
    };
    const std::int64_t rows = whole / kCols;
    compute(Dot{cut(x, 0, rows, kCols), cut(z, 0, rows, kCols), accumulate, out});
    if (whole == x.cols) return;
    const std::int64_t rest = x.cols - whole;
    compute(Dot{cut(x, whole, 1, rest), cut(z, whole, 1, rest), /*accumulate=*/true, out});
  }
};

// y = max(x, z), of equal ones x; NaN if either is. All of one shape; y may be x or z.
struct Maximum {
  static constexpr const char* kName = "maximum";
  ConstMatrixView x;
  ConstMatrixView z;
  MatrixView y;

  bool empty() const { return x.empty(); }
  void check(const BackendTraits& backend) const {
    check_view(backend, x, "maximum x");
    check_shape(backend, z, x.rows, x.cols, x.dtype, "maximum z");
    check_shape(backend, y, x.rows, x.cols, x.dtype, "maximum y");
    check_same_or_disjoint(y, x, "maximum y and x");
    check_same_or_disjoint(y, z, "maximum y and z");
  }
  SpanWork work(bool) const { return streaming_work({x, z, y}); }
};

// The gradient of x in max(x, z): dx = dy where x >= z, else 0; or that of z, which has the rest.
// dx may be dy.
struct MaximumBackward {
  static constexpr const char* kName = "maximum_backward";
  ConstMatrixView dy;
  ConstMatrixView x;
  ConstMatrixView z;
  MaximumOf of = MaximumOf::kFirst;
  MatrixView dx;

  bool empty() const { return dy.empty(); }
  void check(const BackendTraits& backend) const {
    check_view(backend, dy, "maximum_backward dy");
    check_shape(backend, x, dy.rows, dy.cols, dy.dtype, "maximum_backward x");
    check_shape(backend, z, dy.rows, dy.cols, dy.dtype, "maximum_backward z");
    check_shape(backend, dx, dy.rows, dy.cols, dy.dtype, "maximum_backward dx");
    check_same_or_disjoint(dx, dy, "maximum_backward dx and dy");
    check_disjoint({dx}, {x, z}, "maximum_backward dx and x or z");
  }
  SpanWork work(bool) const { return streaming_work({dy, x, z, dx}); }
};

// activation.dx from dy, both [N, F] as activation.from is: see ActivationGradient, which must
// not be absent here.
struct ActivationBackward {
  static constexpr const char* kName = "activation_backward";
  ConstMatrixView dy;
  ActivationGradient activation;

  bool empty() const { return dy.empty(); }
  void check(const BackendTraits& backend) const {
    check_view(backend, dy, "activation_backward dy");
    ATOLL_ASSERT(!activation.absent(), "activation_backward without an activation");
    check_activation(backend, activation, dy);
  }
  SpanWork work(bool) const { return gradient_work(dy, activation); }
};

// out[j] = sum_i x[i, j] + (accumulate ? out[j] : 0), summed in double. out [1, cols], of the
// parameters' type. With `activation`, which must be relu, x is a dy that goes through it in the
// same pass: the sums are of dx as it is stored, the same bits as by activation_backward and sums
// of dx.
struct ColumnSums {
  static constexpr const char* kName = "column_sums";
  ConstMatrixView x;
  bool accumulate = false;
  MatrixView out;
  ActivationGradient activation = {};

  bool empty() const { return x.empty(); }
  void check(const BackendTraits& backend) const {
    check_view(backend, x, "column_sums x");
    check_shape(backend, out, 1, x.cols, parameter_dtype(x.dtype), "column_sums out");
    check_disjoint(out, x, "column_sums out and x");
    check_activation(backend, activation, x);
    check_sums_through(activation);
    check_disjoint(out, activation.dx, "column_sums out and dx");
  }
  SpanWork work(bool) const { return gradient_work(x, activation); }
  const char* name() const { return activation.absent() ? kName : "relu_dropout_column_sums"; }
  std::array<MatrixView, 1> zeroed() const { return {accumulate ? MatrixView{} : out}; }
};

// out[j] = parts[0, j] + parts[1, j] + ..., added in this order in double and rounded once: the
// sum over ranks. f32 or f64 on every backend. parts [P, n], out [1, n].
struct SumParts {
  static constexpr const char* kName = "sum_parts";
  ConstMatrixView parts;
  MatrixView out;

  bool empty() const { return out.cols == 0; }
  void check(const BackendTraits&) const {
    for (const ConstMatrixView view : {parts, ConstMatrixView(out)}) {
      ATOLL_ASSERT(view.dtype == DType::kF32 || view.dtype == DType::kF64, "sum_parts dtype {}",
                   static_cast<int>(view.dtype));
    }
    ATOLL_ASSERT(parts.rows >= 1 && out.rows == 1 && out.cols == parts.cols &&
                     out.dtype == parts.dtype && parts.stride >= parts.cols,
                 "sum_parts: {} x {} into {} x {}", parts.rows, parts.cols, out.rows, out.cols);
    check_disjoint(out, parts, "sum_parts out and parts");
  }
  SpanWork work(bool) const { return streaming_work({parts, out}); }
};

}  // namespace atl::kernels
