// The product of a sparse operator.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "kernels/checks.hpp"
#include "kernels/operation_work.hpp"

namespace atl::kernels {

// y[i, :] = epilogue(beta * y[i, :] + (S x)[i, :]) for i in `rows` (S: see SparseOperator), beta
// 0 or 1 (0 ignores what y held). x [op.cols, F], y [op.rows, F]; dropout.row_ids [rows.size()].
struct Spmm {
  static constexpr const char* kName = "spmm";
  SparseOperator op;
  RowRange rows;
  ConstMatrixView x;
  double beta = 0;
  MatrixView y;
  Epilogue epilogue = {};

  bool empty() const { return rows.size() == 0 || x.cols == 0; }
  void check(const BackendTraits& backend) const {
    check_view(backend, x, "spmm x");
    check_rows(rows, op.rows, "spmm rows");
    check_shape(backend, x, op.cols, x.cols, x.dtype, "spmm x");
    check_shape(backend, y, op.rows, x.cols, x.dtype, "spmm y");
    if (empty()) return;
    check_operator(op);
    ATOLL_ASSERT(beta == 0 || beta == 1, "spmm beta {}", beta);
    check_disjoint(y.rows_in(rows), x, "spmm y and x");
    check_epilogue(backend, epilogue, y.rows_in(rows));
  }
  SpanWork work(bool host_readable) const { return spmm_work(op, rows, x, beta, y, host_readable); }
  // In profiles, beside the name: by which kernel, where a backend has several.
  std::string label(const char* kernel) const {
    return fmt::format("{} wide by {}", x.cols, kernel);
  }
};

}  // namespace atl::kernels
