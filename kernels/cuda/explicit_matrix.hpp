// An operator with one value per edge, on the device: what libraries of sparse matrices take.
#pragma once

#include <cstdint>

#include "kernels/cuda/device_buffer.hpp"
#include "kernels/cuda/queue.hpp"

namespace atl::cuda {

// CSR of a range of rows with offsets and columns of 32 bits. A self weight is an edge from the row
// to itself, its first; one of 0 is no edge, so that the row is not read.
//
// Values of f32 hold all factors of the operator, those of bf16 the weights of edges alone: row and
// column factors would be rounded, and with them the normalisation.
struct ExplicitMatrix {
  std::int64_t rows = 0;
  std::int64_t cols = 0;  // those that an edge reads, and what lies below them
  std::int64_t entries = 0;
  DeviceMemory row_ptr;
  DeviceMemory col_idx;
  DeviceMemory values;

  // Made on the device; waits for the queue. dtype: f32 or bf16. The range has an edge, and 32 bits
  // count its entries.
  ExplicitMatrix(Backend& backend, CudaQueue& queue, const SparseOperator& op, RowRange range,
                 DType dtype);
};

// Whether all weights of the operator's edges are bf16 numbers to the last bit. Waits for the
// queue.
bool weights_fit_bf16(Backend& backend, CudaQueue& queue, const SparseOperator& op);

}  // namespace atl::cuda
