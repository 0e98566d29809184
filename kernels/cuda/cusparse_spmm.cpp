#include "kernels/cuda/cusparse_spmm.hpp"

#include <limits>

#include "base/error.hpp"
#include "base/memory.hpp"
#include "kernels/cuda/launchers.hpp"

namespace atl::cuda {

namespace {

constexpr cusparseOperation_t kAsIs = CUSPARSE_OPERATION_NON_TRANSPOSE;
constexpr std::uintptr_t kSparseAlignment = 16;

cudaDataType element_type(DType dtype) { return dtype == DType::kBf16 ? CUDA_R_16BF : CUDA_R_32F; }

bool rows_aligned(ConstMatrixView view) {
  const auto stride = static_cast<std::uintptr_t>(view.stride * bytes_of(view.dtype));
  return (reinterpret_cast<std::uintptr_t>(view.data) | stride) % kSparseAlignment == 0;
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

// Throws Error{kMemory} if so many bytes would leave less than kSpareBytes.
void require_spare(Backend& backend, std::int64_t bytes) {
  const std::int64_t available = backend.available_bytes();
  if (bytes + kSpareBytes <= available) return;
  fail(ErrorKind::kMemory, "cuSPARSE: {} of {} of device memory would leave less than {}",
       format_bytes(bytes), format_bytes(available), format_bytes(kSpareBytes));
}

DeviceMemory make_spare_buffer(Backend& backend, std::int64_t bytes) {
  require_spare(backend, bytes);
  return make_buffer(backend, bytes);
}

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
  return rows_aligned(x) && rows_aligned(rows_of_y);
}

std::unique_ptr<CusparseSpmm> CusparseSpmm::make(Backend& backend, CudaQueue& queue,
                                                 const SparseOperator& op, RowRange range,
                                                 std::int64_t nnz, DType dtype) {
  if (dtype == DType::kBf16 && !weights_fit_bf16(backend, queue, op)) return nullptr;
  const std::int64_t entries = nnz + (op.self_weight.empty() ? 0 : range.size());
  const std::int64_t index_bytes = sizeof(std::int32_t);
  require_spare(backend,
                (range.size() + 1) * index_bytes + entries * (index_bytes + bytes_of(dtype)));
  return std::unique_ptr<CusparseSpmm>(new CusparseSpmm(backend, queue, op, range, dtype));
}

SparseMatrix CusparseSpmm::describe() const {
  cusparseSpMatDescr_t made = nullptr;
  check(libraries().cusparseCreateCsr(&made, matrix_.rows, matrix_.cols, matrix_.entries,
                                      matrix_.row_ptr.get(), matrix_.col_idx.get(),
                                      matrix_.values.get(), CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
                                      CUSPARSE_INDEX_BASE_ZERO, element_type(dtype_)),
        "cusparseCreateCsr");
  return SparseMatrix(made);
}

void CusparseSpmm::make_scratch(std::int64_t columns) {
  if (dtype_ == DType::kF32 || scratch_.contains(columns)) return;
  const std::int64_t stride = padded_columns(columns);
  Scratch made;
  if (scales_) {
    made.scaled = make_spare_buffer(backend_, matrix_.cols * stride * bytes_of(DType::kBf16));
  }
  made.sums = make_spare_buffer(backend_, range_.size() * stride * bytes_of(DType::kF32));
  scratch_.emplace(columns, std::move(made));
}

ConstMatrixView CusparseSpmm::input_of(ConstMatrixView x) const {
  if (!scales_) return x.rows_in({0, matrix_.cols});
  const auto scratch = scratch_.find(x.cols);
  const void* data = scratch == scratch_.end() ? nullptr : scratch->second.scaled.get();
  return {data, matrix_.cols, x.cols, padded_columns(x.cols), DType::kBf16};
}

MatrixView CusparseSpmm::result_of(ConstMatrixView x, MatrixView y) const {
  if (dtype_ == DType::kF32) return y.rows_in(range_);
  const auto scratch = scratch_.find(x.cols);
  void* data = scratch == scratch_.end() ? nullptr : scratch->second.sums.get();
  return {data, range_.size(), x.cols, padded_columns(x.cols), DType::kF32};
}

CusparseSpmm::Key CusparseSpmm::key_of(const SparseAlgorithm& algorithm, ConstMatrixView x,
                                       MatrixView y) const {
  return {algorithm.id, x.cols, input_of(x).stride, result_of(x, y).stride};
}

bool CusparseSpmm::prepared(const SparseAlgorithm& algorithm, ConstMatrixView x,
                            MatrixView y) const {
  return prepared_.contains(key_of(algorithm, x, y));
}

void CusparseSpmm::prepare(CudaQueue& queue, const SparseAlgorithm& algorithm, ConstMatrixView x,
                           MatrixView y) {
  if (prepared(algorithm, x, y)) return;
  make_scratch(x.cols);
  Prepared made{describe(), {}};
  const DenseMatrix from = describe_dense(input_of(x));
  const DenseMatrix to = describe_dense(result_of(x, y));
  const float alpha = 1;
  const float beta = 0;
  std::size_t bytes = 0;
  check(libraries().cusparseSpMM_bufferSize(queue.sparse(), kAsIs, kAsIs, &alpha, made.matrix.get(),
                                            from.get(), &beta, to.get(), CUDA_R_32F, algorithm.id,
                                            &bytes),
        "cusparseSpMM_bufferSize");
  made.workspace = make_spare_buffer(backend_, static_cast<std::int64_t>(bytes));
  check(libraries().cusparseSpMM_preprocess(queue.sparse(), kAsIs, kAsIs, &alpha, made.matrix.get(),
                                            from.get(), &beta, to.get(), CUDA_R_32F, algorithm.id,
                                            made.workspace.get()),
        "cusparseSpMM_preprocess");
  prepared_.emplace(key_of(algorithm, x, y), std::move(made));
}

void CusparseSpmm::run(CudaQueue& queue, const SparseAlgorithm& algorithm, const SparseOperator& op,
                       ConstMatrixView x, double beta, MatrixView y, const Epilogue& epilogue) {
  const Prepared& use = prepared_.at(key_of(algorithm, x, y));
  const ConstMatrixView input = input_of(x);
  const MatrixView result = result_of(x, y);
  if (scales_) {
    const MatrixView scaled{const_cast<void*>(input.data), input.rows, input.cols, input.stride,
                            input.dtype};
    scale_rows(queue.launch(), x.rows_in({0, input.rows}), op.col_scale, scaled);
  }
  const DenseMatrix from = describe_dense(input);
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
