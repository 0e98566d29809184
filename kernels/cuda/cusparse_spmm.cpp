#include "kernels/cuda/cusparse_spmm.hpp"

#include <limits>
#include <vector>

#include "base/error.hpp"

namespace atl::cuda {

namespace {

// Chosen because its results should not change from run to run, as this backend promises. That has
// not been seen on a device yet; ALG2 may be faster for row-major matrices.
constexpr cusparseSpMMAlg_t kAlgorithm = CUSPARSE_SPMM_CSR_ALG3;
constexpr cusparseOperation_t kAsIs = CUSPARSE_OPERATION_NON_TRANSPOSE;

template <typename T>
std::vector<T> download(Backend& backend, Queue& queue, std::span<const T> values) {
  std::vector<T> host(values.size());
  backend.copy(queue, host.data(), values.data(), static_cast<std::int64_t>(values.size_bytes()),
               CopyKind::kDeviceToHost);
  return host;
}

// The operator's arrays for a range of rows on the host.
struct HostOperator {
  std::vector<std::int64_t> row_ptr;  // of the range
  std::vector<std::int32_t> col_idx;  // of its edges
  std::vector<float> values;
  std::vector<float> row_scale;
  std::vector<float> self_weight;
  std::vector<float> col_scale;  // of all columns

  HostOperator(Backend& backend, Queue& queue, const SparseOperator& op, RowRange range) {
    const auto first = static_cast<std::size_t>(range.begin);
    const auto count = static_cast<std::size_t>(range.size());
    row_ptr = download(backend, queue, op.row_ptr.subspan(first, count + 1));
    const auto first_edge = static_cast<std::size_t>(row_ptr.front());
    const auto edges = static_cast<std::size_t>(row_ptr.back()) - first_edge;
    col_idx = download(backend, queue, op.col_idx.subspan(first_edge, edges));
    const auto part = [&](std::span<const float> span, std::size_t begin, std::size_t size) {
      return span.empty() ? std::vector<float>()
                          : download(backend, queue, span.subspan(begin, size));
    };
    values = part(op.values, first_edge, edges);
    row_scale = part(op.row_scale, first, count);
    self_weight = part(op.self_weight, first, count);
    col_scale = part(op.col_scale, 0, op.col_scale.size());
  }
};

float at(const std::vector<float>& values, std::size_t k, float otherwise) {
  return values.empty() ? otherwise : values[k];
}

// CSR with one value per edge; a self weight of 0 is no edge, so that the row is not read.
struct ExplicitMatrix {
  std::vector<std::int32_t> row_ptr;
  std::vector<std::int32_t> col_idx;
  std::vector<float> values;

  ExplicitMatrix(const HostOperator& op, std::int64_t first_row) {
    row_ptr.push_back(0);
    const std::int64_t first_edge = op.row_ptr.front();
    for (std::size_t i = 0; i + 1 < op.row_ptr.size(); ++i) {
      const float scale = at(op.row_scale, i, 1);
      const float self = at(op.self_weight, i, 0);
      if (self != 0)
        add(static_cast<std::int32_t>(first_row) + static_cast<std::int32_t>(i), self, scale, op);
      for (std::int64_t e = op.row_ptr[i]; e < op.row_ptr[i + 1]; ++e) {
        const auto k = static_cast<std::size_t>(e - first_edge);
        add(op.col_idx[k], at(op.values, k, 1), scale, op);
      }
      row_ptr.push_back(static_cast<std::int32_t>(col_idx.size()));
    }
  }

 private:
  void add(std::int32_t column, float weight, float scale, const HostOperator& op) {
    col_idx.push_back(column);
    values.push_back(scale * weight * at(op.col_scale, static_cast<std::size_t>(column), 1));
  }
};

DenseMatrix describe_dense(MatrixView view) {
  cusparseDnMatDescr_t made = nullptr;
  check(libraries().cusparseCreateDnMat(&made, view.rows, view.cols, view.stride, view.data,
                                        CUDA_R_32F, CUSPARSE_ORDER_ROW),
        "cusparseCreateDnMat");
  return DenseMatrix(made);
}

// The interface has no constant matrix where one is an input.
DenseMatrix describe_dense(ConstMatrixView view) {
  return describe_dense(
      MatrixView{const_cast<void*>(view.data), view.rows, view.cols, view.stride, view.dtype});
}

}  // namespace

bool CusparseSpmm::supports(DType dtype, RowRange range, std::int64_t nnz) {
  return dtype == DType::kF32 && nnz > 0 &&
         nnz + range.size() <= std::numeric_limits<std::int32_t>::max();
}

CusparseSpmm::CusparseSpmm(Backend& backend, CudaQueue& queue, const SparseOperator& op,
                           RowRange range)
    : backend_(backend), range_(range), cols_(op.cols) {
  const ExplicitMatrix matrix(HostOperator(backend, queue, op, range), range.begin);
  nnz_ = static_cast<std::int64_t>(matrix.values.size());
  row_ptr_ = upload(backend, queue, std::span(matrix.row_ptr));
  col_idx_ = upload(backend, queue, std::span(matrix.col_idx));
  values_ = upload(backend, queue, std::span(matrix.values));
}

SparseMatrix CusparseSpmm::describe() const {
  cusparseSpMatDescr_t made = nullptr;
  check(libraries().cusparseCreateCsr(&made, range_.size(), cols_, nnz_, row_ptr_.get(),
                                      col_idx_.get(), values_.get(), CUSPARSE_INDEX_32I,
                                      CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F),
        "cusparseCreateCsr");
  return SparseMatrix(made);
}

void CusparseSpmm::prepare(CudaQueue& queue, ConstMatrixView x, MatrixView y) {
  if (prepared(x.cols)) return;
  Prepared made{describe(), {}};
  const DenseMatrix from = describe_dense(x);
  const DenseMatrix to = describe_dense(y.rows_in(range_));
  const float alpha = 1;
  const float beta = 0;
  std::size_t bytes = 0;
  check(libraries().cusparseSpMM_bufferSize(queue.sparse(), kAsIs, kAsIs, &alpha, made.matrix.get(),
                                            from.get(), &beta, to.get(), CUDA_R_32F, kAlgorithm,
                                            &bytes),
        "cusparseSpMM_bufferSize");
  made.workspace = make_buffer(backend_, static_cast<std::int64_t>(bytes));
  check(libraries().cusparseSpMM_preprocess(queue.sparse(), kAsIs, kAsIs, &alpha, made.matrix.get(),
                                            from.get(), &beta, to.get(), CUDA_R_32F, kAlgorithm,
                                            made.workspace.get()),
        "cusparseSpMM_preprocess");
  prepared_.emplace(x.cols, std::move(made));
}

void CusparseSpmm::run(CudaQueue& queue, ConstMatrixView x, double beta, MatrixView y) {
  const Prepared& use = prepared_.at(x.cols);
  const DenseMatrix from = describe_dense(x);
  const DenseMatrix to = describe_dense(y.rows_in(range_));
  const float alpha = 1;
  const auto keep = static_cast<float>(beta);
  check(libraries().cusparseSpMM(queue.sparse(), kAsIs, kAsIs, &alpha, use.matrix.get(), from.get(),
                                 &keep, to.get(), CUDA_R_32F, kAlgorithm, use.workspace.get()),
        "cusparseSpMM");
}

}  // namespace atl::cuda
