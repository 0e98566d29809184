// The product of a sparse operator.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/trace.hpp"
#include "kernels/views.hpp"

namespace atl {

class Backend;

namespace kernels {

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
  void check(const Backend& backend) const;
  SpanWork work(bool host_readable) const;
  // In profiles, beside the name: by which kernel, where a backend has several.
  std::string label(const char* kernel) const;
};

}  // namespace kernels

}  // namespace atl
