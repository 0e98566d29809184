// Dense matrices: fills, conversions, products, sums, and what is done element by element.
#pragma once

#include <cstdint>
#include <span>

#include "base/trace.hpp"
#include "kernels/views.hpp"

namespace atl {

class Backend;

namespace kernels {

struct FillZero {
  static constexpr const char* kName = "fill_zero";
  MatrixView y;

  bool empty() const { return y.empty(); }
  void check(const Backend& backend) const;
  SpanWork work(bool host_readable) const;
};

// y = x in the type of y, rounded to nearest even.
struct Convert {
  static constexpr const char* kName = "convert";
  ConstMatrixView x;
  MatrixView y;

  bool empty() const { return x.empty(); }
  void check(const Backend& backend) const;
  SpanWork work(bool host_readable) const;
};

// y = epilogue(x); y may be x.
struct ApplyEpilogue {
  static constexpr const char* kName = "apply_epilogue";
  ConstMatrixView x;
  Epilogue epilogue;
  MatrixView y;

  bool empty() const { return x.empty(); }
  void check(const Backend& backend) const;
  SpanWork work(bool host_readable) const;
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
  bool empty() const { return c.empty() || inner() == 0; }
  void check(const Backend& backend) const;
  SpanWork work(bool host_readable) const;
  // Sums of no products are 0.
  template <typename Compute>
  void compute_by(const Compute& compute) const {
    if (!empty()) return compute(*this);
    if (c.empty()) return;
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
  void check(const Backend& backend) const;
  SpanWork work(bool host_readable) const;
};

// y = e x with the number e that lies in `factor` [1, 1], of the parameters' type; y may be x.
struct Scale {
  static constexpr const char* kName = "scale";
  ConstMatrixView x;
  ConstMatrixView factor;
  MatrixView y;

  bool empty() const { return x.empty(); }
  void check(const Backend& backend) const;
  SpanWork work(bool host_readable) const;
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
  void check(const Backend& backend) const;
  SpanWork work(bool host_readable) const;
  // A long row is cut, so that threads can share it.
  template <typename Compute>
  void compute_by(const Compute& compute) const {
    if (empty()) {
      if (!accumulate) compute(FillZero{out});
      return;
    }
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
  void check(const Backend& backend) const;
  SpanWork work(bool host_readable) const;
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
  void check(const Backend& backend) const;
  SpanWork work(bool host_readable) const;
};

// activation.dx from dy, both [N, F] as activation.from is: see ActivationGradient, which must
// not be absent here.
struct ActivationBackward {
  static constexpr const char* kName = "activation_backward";
  ConstMatrixView dy;
  ActivationGradient activation;

  bool empty() const { return dy.empty(); }
  void check(const Backend& backend) const;
  SpanWork work(bool host_readable) const;
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
  void check(const Backend& backend) const;
  SpanWork work(bool host_readable) const;
  const char* name() const { return activation.absent() ? kName : "relu_dropout_column_sums"; }
  // Sums of no rows are 0.
  template <typename Compute>
  void compute_by(const Compute& compute) const {
    if (!empty()) return compute(*this);
    if (x.cols > 0 && !accumulate) compute(FillZero{out});
  }
};

// out[j] = parts[0, j] + parts[1, j] + ..., added in this order in double and rounded once: the
// sum over ranks. f32 or f64 on every backend. parts [P, n], out [1, n].
struct SumParts {
  static constexpr const char* kName = "sum_parts";
  ConstMatrixView parts;
  MatrixView out;

  bool empty() const { return out.cols == 0; }
  void check(const Backend& backend) const;
  SpanWork work(bool host_readable) const;
};

}  // namespace kernels

}  // namespace atl
