// SpMM by cuSPARSE: the candidates beside the own kernel.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <string_view>

#include "kernels/cuda/device_buffer.hpp"
#include "kernels/cuda/handles.hpp"
#include "kernels/cuda/queue.hpp"
#include "kernels/views.hpp"

namespace atl::cuda {

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
// f32: all factors are part of the values. bf16: cuSPARSE wants values of the type of x, so that
// only operators are possible whose values times column factors are bf16 numbers to the last bit,
// such as edges of weight 1 without column factors: rounded, they would be another normalisation.
// Row factors are not among the values then: they multiply the sums, which cuSPARSE leaves in f32,
// and each element is rounded once, as by the own kernel.
class CusparseSpmm {
 public:
  // Whether cuSPARSE may be asked at all: edges that 32 bits count.
  static bool counts(RowRange range, std::int64_t nnz);
  // Whether it may be given these matrices: it reads 16 bytes at a time from their starts.
  static bool aligned(ConstMatrixView x, ConstMatrixView rows_of_y);

  // Copies the operator to the host and the values back; blocks the host. Null if `dtype` does not
  // hold the values.
  static std::unique_ptr<CusparseSpmm> make(Backend& backend, CudaQueue& queue,
                                            const SparseOperator& op, RowRange range, DType dtype);

  // Whether run() with matrices of these columns and strides needs no preparation, which can't be
  // recorded.
  bool prepared(const SparseAlgorithm& algorithm, ConstMatrixView x, MatrixView y) const;
  // Throws SparseRefusal where cuSPARSE can't run it, Error{kMemory} where its workspace does not
  // fit.
  void prepare(CudaQueue& queue, const SparseAlgorithm& algorithm, ConstMatrixView x, MatrixView y);
  // As Backend::spmm, for the rows of the range; op is the operator that this was made of.
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
  // What preparing works out is kept in the descriptor and in the workspace.
  struct Prepared {
    SparseMatrix matrix;
    Buffer workspace;
  };

  CusparseSpmm(Backend& backend, RowRange range, std::int64_t cols, DType dtype)
      : backend_(backend), range_(range), cols_(cols), dtype_(dtype) {}
  SparseMatrix describe() const;
  // What cuSPARSE writes: the rows in y, or the sums.
  MatrixView result_of(ConstMatrixView x, MatrixView y) const;
  Key key_of(const SparseAlgorithm& algorithm, ConstMatrixView x, MatrixView y) const;

  Backend& backend_;
  RowRange range_;
  std::int64_t cols_ = 0;
  DType dtype_;
  std::int64_t nnz_ = 0;
  Buffer row_ptr_;  // int32, rows + 1
  Buffer col_idx_;
  Buffer values_;                        // of dtype_
  std::map<std::int64_t, Buffer> sums_;  // by columns; of bf16
  std::map<Key, Prepared> prepared_;
};

}  // namespace atl::cuda
