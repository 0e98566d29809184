// A sparse matrix in the memory of a backend.
#pragma once

#include <utility>

#include "base/csr.hpp"
#include "engine/tensor/tensor.hpp"

namespace atl {

class DeviceCsr {
 public:
  DeviceCsr() = default;
  // Where the host's memory is the backend's, it refers to the arrays of `csr`, which must outlive
  // it; else it owns copies, as a ConstDeviceArray.
  DeviceCsr(Backend& backend, Queue& queue, const CsrView& csr, std::int64_t cols)
      : row_ptr_(backend, queue, csr.row_ptr), col_idx_(backend, queue, csr.col_idx), cols_(cols) {
    if (!csr.values.empty()) values_ = {backend, queue, csr.values};
  }
  // Takes the arrays over where the host's memory is the backend's.
  DeviceCsr(Backend& backend, Queue& queue, Csr&& csr, std::int64_t cols)
      : row_ptr_(backend, queue, std::move(csr.row_ptr)),
        col_idx_(backend, queue, std::move(csr.col_idx)),
        cols_(cols) {
    if (!csr.values.empty()) values_ = {backend, queue, std::move(csr.values)};
  }

  // Without factors, and not prepared.
  SparseOperator view() const {
    SparseOperator op;
    op.rows = CsrView{row_ptr_.span(), {}, {}}.rows();
    op.cols = cols_;
    op.row_ptr = row_ptr_.span();
    op.col_idx = col_idx_.span();
    op.values = values_.span();
    return op;
  }

 private:
  ConstDeviceArray<std::int64_t> row_ptr_;
  ConstDeviceArray<std::int32_t> col_idx_;
  ConstDeviceArray<float> values_;
  std::int64_t cols_ = 0;
};

}  // namespace atl
