// SpMM by cuSPARSE: the candidates beside the own kernel.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <string_view>

#include "kernels/cuda/device_buffer.hpp"
#include "kernels/cuda/explicit_matrix.hpp"
#include "kernels/cuda/handles.hpp"
#include "kernels/cuda/queue.hpp"
#include "kernels/views.hpp"

namespace atl::cuda {

// Device memory that copies and workspaces for cuSPARSE leave free: they only save time, and what a
// run takes later, handles of libraries and scratch of other kernels, must not fail for them.
inline constexpr std::int64_t kSpareBytes = std::int64_t{256} << 20;

// One of cuSPARSE's ways to multiply a CSR matrix, under its name among the kernels of an spmm.
struct SparseAlgorithm {
  const char* name;
  cusparseSpMMAlg_t id;
  bool repeats;  // its documentation promises the same bits in every run
};

// ALG2 is made for row-major matrices; of the algorithms for CSR only ALG3 is promised to repeat.
inline constexpr std::array kSparseAlgorithms = {
    SparseAlgorithm{"cusparse-alg2", CUSPARSE_SPMM_CSR_ALG2, false},
    SparseAlgorithm{"cusparse-alg3", CUSPARSE_SPMM_CSR_ALG3, true}};
// Null if none has this name.
const SparseAlgorithm* sparse_algorithm_named(std::string_view name);

// One range of rows of an operator as cuSPARSE wants it: a value per edge, the self weights among
// the edges, for matrices x and y of one type.
//
// f32: all factors are part of the values. bf16: cuSPARSE wants values of the type of x, which must
// not round them: that would be another normalisation, the same error in every column and epoch. So
// the values are the weights of edges alone, and only operators are possible whose weights are bf16
// numbers to the last bit, such as 1. Column factors multiply rows of x, into a copy: its elements
// are rounded once more, each by itself, as by storage. Row factors multiply the sums, which
// cuSPARSE leaves in f32, and each element of y is rounded once, as by the own kernel.
//
// ALG3 multiplies the first row of x by 0 and adds it to every sum (seen of version 12.6): where
// that row is not finite, no row of y is.
class CusparseSpmm {
 public:
  // Whether cuSPARSE may be asked at all: edges that 32 bits count.
  static bool counts(RowRange range, std::int64_t nnz);
  // Whether it may be given these matrices: it reads 16 bytes at a time from the start of a row.
  static bool aligned(ConstMatrixView x, ConstMatrixView rows_of_y);

  // Makes the copy of the operator on the device; waits for the queue. Null if `dtype` does not
  // hold the weights. Throws Error{kMemory} where the copy would not leave kSpareBytes.
  static std::unique_ptr<CusparseSpmm> make(Backend& backend, CudaQueue& queue,
                                            const SparseOperator& op, RowRange range,
                                            std::int64_t nnz, DType dtype);

  // Whether run() with matrices of these columns and strides needs no preparation, which can't be
  // recorded.
  bool prepared(const SparseAlgorithm& algorithm, ConstMatrixView x, MatrixView y) const;
  // Throws SparseRefusal where cuSPARSE can't run it, Error{kMemory} where what it needs would not
  // leave kSpareBytes.
  void prepare(CudaQueue& queue, const SparseAlgorithm& algorithm, ConstMatrixView x, MatrixView y);
  // As kernels::Spmm, for the rows of the range; op is the operator that this was made of. Throws
  // SparseRefusal, before y is changed.
  void run(CudaQueue& queue, const SparseAlgorithm& algorithm, const SparseOperator& op,
           ConstMatrixView x, double beta, MatrixView y, const Epilogue& epilogue);

 private:
  struct Key {
    cusparseSpMMAlg_t algorithm;
    std::int64_t columns;
    std::int64_t x_stride;
    std::int64_t result_stride;
    auto operator<=>(const Key&) const = default;
  };
  // Results of preparing are kept in the descriptor and in the workspace.
  struct Prepared {
    SparseMatrix matrix;
    DeviceMemory workspace;
  };

  // Matrices of one number of columns on their way to and from cuSPARSE in bf16.
  struct Scratch {
    DeviceMemory scaled;  // x by column factors, where there are any
    DeviceMemory sums;
  };

  CusparseSpmm(Backend& backend, CudaQueue& queue, const SparseOperator& op, RowRange range,
               DType dtype)
      : backend_(backend),
        range_(range),
        dtype_(dtype),
        scales_(dtype == DType::kBf16 && !op.col_scale.empty()),
        matrix_(backend, queue, op, range, dtype) {}
  SparseMatrix describe() const;
  void make_scratch(std::int64_t columns);
  // The operand of cuSPARSE: the rows of x that have an edge, or their copy.
  ConstMatrixView input_of(ConstMatrixView x) const;
  // The result of cuSPARSE: the rows in y, or the sums.
  MatrixView result_of(ConstMatrixView x, MatrixView y) const;
  Key key_of(const SparseAlgorithm& algorithm, ConstMatrixView x, MatrixView y) const;

  Backend& backend_;
  RowRange range_;
  DType dtype_;
  bool scales_;  // rows of x by column factors
  ExplicitMatrix matrix_;
  std::map<std::int64_t, Scratch> scratch_;  // by columns; of bf16
  std::map<Key, Prepared> prepared_;
};

}  // namespace atl::cuda
