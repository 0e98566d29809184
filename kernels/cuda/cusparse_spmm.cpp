#include "kernels/cuda/cusparse_spmm.hpp"

#include <limits>

#include "base/error.hpp"
#include "kernels/cuda/explicit_matrix.hpp"
#include "kernels/cuda/operations.hpp"

namespace atl::cuda {

namespace {

constexpr cusparseOperation_t kAsIs = CUSPARSE_OPERATION_NON_TRANSPOSE;
constexpr std::uintptr_t kSparseAlignment = 16;

cudaDataType element_type(DType dtype) { return dtype == DType::kBf16 ? CUDA_R_16BF : CUDA_R_32F; }

bool starts_aligned(ConstMatrixView view) {
  return reinterpret_cast<std::uintptr_t>(view.data) % kSparseAlignment == 0;
}

DenseMatrix describe_dense(MatrixView view) {
  cusparseDnMatDescr_t made = nullptr;
  check(libraries().cusparseCreateDnMat(&made, view.rows, view.cols, view.stride, view.data,
                                        element_type(view.dtype), CUSPARSE_ORDER_ROW),
        "cusparseCreateDnMat");
  return DenseMatrix(made);
}

// The interface has no constant matrix where one is an input.
DenseMatrix describe_dense(ConstMatrixView view) {
  return describe_dense(
      MatrixView{const_cast<void*>(view.data), view.rows, view.cols, view.stride, view.dtype});
}

// Elements between the rows of sums: whole accesses of 16 bytes.
std::int64_t sums_stride(std::int64_t columns) { return (columns + 3) / 4 * 4; }

}  // namespace

const SparseAlgorithm* sparse_algorithm_named(std::string_view name) {
  for (const SparseAlgorithm& algorithm : kSparseAlgorithms) {
    if (algorithm.name == name) return &algorithm;
  }
  return nullptr;
}

bool CusparseSpmm::counts(RowRange range, std::int64_t nnz) {
  return nnz > 0 && nnz + range.size() <= std::numeric_limits<std::int32_t>::max();
}

bool CusparseSpmm::aligned(ConstMatrixView x, ConstMatrixView rows_of_y) {
  return starts_aligned(x) && starts_aligned(rows_of_y);
}

std::unique_ptr<CusparseSpmm> CusparseSpmm::make(Backend& backend, CudaQueue& queue,
                                                 const SparseOperator& op, RowRange range,
                                                 DType dtype) {
  const ExplicitMatrix matrix(backend, queue, op, range, dtype);
  if (!matrix.exact) return nullptr;
  std::unique_ptr<CusparseSpmm> made(new CusparseSpmm(backend, range, op.cols, dtype));
  made->nnz_ = static_cast<std::int64_t>(matrix.col_idx.size());
  made->row_ptr_ = upload(backend, queue, std::span(matrix.row_ptr));
  made->col_idx_ = upload(backend, queue, std::span(matrix.col_idx));
  made->values_ = dtype == DType::kF32 ? upload(backend, queue, std::span(matrix.values))
                                       : upload(backend, queue, std::span(matrix.bf16_values));
  return made;
}

SparseMatrix CusparseSpmm::describe() const {
  cusparseSpMatDescr_t made = nullptr;
  check(libraries().cusparseCreateCsr(
            &made, range_.size(), cols_, nnz_, row_ptr_.get(), col_idx_.get(), values_.get(),
            CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, element_type(dtype_)),
        "cusparseCreateCsr");
  return SparseMatrix(made);
}

MatrixView CusparseSpmm::result_of(ConstMatrixView x, MatrixView y) const {
  if (dtype_ == DType::kF32) return y.rows_in(range_);
  const auto sums = sums_.find(x.cols);
  void* data = sums == sums_.end() ? nullptr : sums->second.get();
  return {data, range_.size(), x.cols, sums_stride(x.cols), DType::kF32};
}

CusparseSpmm::Key CusparseSpmm::key_of(const SparseAlgorithm& algorithm, ConstMatrixView x,
                                       MatrixView y) const {
  return {algorithm.id, x.cols, x.stride, result_of(x, y).stride};
}

bool CusparseSpmm::prepared(const SparseAlgorithm& algorithm, ConstMatrixView x,
                            MatrixView y) const {
  return prepared_.contains(key_of(algorithm, x, y));
}

void CusparseSpmm::prepare(CudaQueue& queue, const SparseAlgorithm& algorithm, ConstMatrixView x,
                           MatrixView y) {
  if (prepared(algorithm, x, y)) return;
  if (dtype_ == DType::kBf16 && !sums_.contains(x.cols)) {
    const std::int64_t elements = range_.size() * sums_stride(x.cols);
    sums_.emplace(x.cols, make_buffer(backend_, elements * bytes_of(DType::kF32)));
  }
  Prepared made{describe(), {}};
  const DenseMatrix from = describe_dense(x);
  const DenseMatrix to = describe_dense(result_of(x, y));
  const float alpha = 1;
  const float beta = 0;
  std::size_t bytes = 0;
  check(libraries().cusparseSpMM_bufferSize(queue.sparse(), kAsIs, kAsIs, &alpha, made.matrix.get(),
                                            from.get(), &beta, to.get(), CUDA_R_32F, algorithm.id,
                                            &bytes),
        "cusparseSpMM_bufferSize");
  made.workspace = make_buffer(backend_, static_cast<std::int64_t>(bytes));
  check(libraries().cusparseSpMM_preprocess(queue.sparse(), kAsIs, kAsIs, &alpha, made.matrix.get(),
                                            from.get(), &beta, to.get(), CUDA_R_32F, algorithm.id,
                                            made.workspace.get()),
        "cusparseSpMM_preprocess");
  prepared_.emplace(key_of(algorithm, x, y), std::move(made));
}

void CusparseSpmm::run(CudaQueue& queue, const SparseAlgorithm& algorithm, const SparseOperator& op,
                       ConstMatrixView x, double beta, MatrixView y, const Epilogue& epilogue) {
  const Prepared& use = prepared_.at(key_of(algorithm, x, y));
  const MatrixView result = result_of(x, y);
  const DenseMatrix from = describe_dense(x);
  const DenseMatrix to = describe_dense(result);
  const bool in_place = dtype_ == DType::kF32;
  const float alpha = 1;
  const float keep = in_place ? static_cast<float>(beta) : 0;
  check(libraries().cusparseSpMM(queue.sparse(), kAsIs, kAsIs, &alpha, use.matrix.get(), from.get(),
                                 &keep, to.get(), CUDA_R_32F, algorithm.id, use.workspace.get()),
        "cusparseSpMM");
  if (in_place) {
    if (!epilogue.identity()) apply_epilogue(queue.launch(), result, epilogue, result);
    return;
  }
  const auto factors = op.row_scale.empty()
                           ? op.row_scale
                           : op.row_scale.subspan(static_cast<std::size_t>(range_.begin),
                                                  static_cast<std::size_t>(range_.size()));
  finish_sums(queue.launch(), result, factors, beta, epilogue, y.rows_in(range_));
}

}  // namespace atl::cuda
