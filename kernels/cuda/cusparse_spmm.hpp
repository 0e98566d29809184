// SpMM by cuSPARSE: the second candidate beside the own kernel.
#pragma once

#include <cstdint>
#include <map>

#include "kernels/cuda/device_buffer.hpp"
#include "kernels/cuda/handles.hpp"
#include "kernels/cuda/queue.hpp"
#include "kernels/views.hpp"

namespace atl::cuda {

// One range of rows of an operator as cuSPARSE wants it: an f32 value per edge, the factors
// multiplied in and the self weights among the edges. f32 only: bf16 values would round the
// normalisation.
class CusparseSpmm {
 public:
  // True if cuSPARSE can run it: f32, and edges that 32 bits count.
  static bool supports(DType dtype, RowRange range, std::int64_t nnz);

  // Copies the operator to the host and the values back; blocks the host.
  CusparseSpmm(Backend& backend, CudaQueue& queue, const SparseOperator& op, RowRange range);

  // Whether run() for this width needs no preparation, which can't be recorded.
  bool prepared(std::int64_t width) const { return prepared_.contains(width); }
  void prepare(CudaQueue& queue, ConstMatrixView x, MatrixView y);
  // y = S x + beta * y for the rows of the range; prepared for this width. Same bits in every run.
  void run(CudaQueue& queue, ConstMatrixView x, double beta, MatrixView y);

 private:
  // Per width, because preparing is part of the descriptor.
  struct Prepared {
    SparseMatrix matrix;
    Buffer workspace;
  };
  SparseMatrix describe() const;

  Backend& backend_;
  RowRange range_;
  std::int64_t cols_ = 0;
  std::int64_t nnz_ = 0;
  Buffer row_ptr_;  // int32, rows + 1
  Buffer col_idx_;
  Buffer values_;
  std::map<std::int64_t, Prepared> prepared_;
};

}  // namespace atl::cuda
