#include "kernels/cuda/gemm.hpp"

#include <algorithm>
#include <bit>
#include <mutex>

#include "base/log.hpp"
#include "kernels/cuda/cuda_backend.hpp"
#include "kernels/cuda/launchers.hpp"

namespace atl::cuda {

namespace {

constexpr std::uintptr_t kBestAlignment = 256;  // more makes no difference to cuBLASLt

cudaDataType_t data_type(DType dtype) {
  ATOLL_ASSERT(dtype != DType::kF64, "gemm of doubles");
  return dtype == DType::kF32 ? CUDA_R_32F : CUDA_R_16BF;
}

cublasOperation_t operation(Transpose transpose) {
  return transpose == Transpose::kYes ? CUBLAS_OP_T : CUBLAS_OP_N;
}

ProductShape make_shape(bool tf32, Transpose transpose_a, ConstMatrixView a, Transpose transpose_b,
                        ConstMatrixView b, MatrixView c) {
  ProductShape shape;
  shape.m = c.cols;
  shape.n = c.rows;
  shape.k = transpose_a == Transpose::kYes ? a.rows : a.cols;
  shape.transpose_b = operation(transpose_b);
  shape.transpose_a = operation(transpose_a);
  shape.b = b;
  shape.a = a;
  shape.c = c;
  if (tf32 && a.dtype == DType::kF32) shape.compute = CUBLAS_COMPUTE_32F_FAST_TF32;
  return shape;
}

void plain_product(CudaQueue& queue, const ProductShape& shape, float beta) {
  const float alpha = 1;
  check(libraries().cublasGemmEx_64(
            queue.blas(), shape.transpose_b, shape.transpose_a, shape.m, shape.n, shape.k, &alpha,
            shape.b.data, data_type(shape.b.dtype), shape.b.stride, shape.a.data,
            data_type(shape.a.dtype), shape.a.stride, &beta, shape.c.data, data_type(shape.c.dtype),
            shape.c.stride, shape.compute, CUBLAS_GEMM_DEFAULT),
        "cublasGemmEx");
}

// The largest power of two that divides the address, at most kBestAlignment.
std::uintptr_t alignment_of(const void* address) {
  const std::uintptr_t bits = kBestAlignment | reinterpret_cast<std::uintptr_t>(address);
  return std::uintptr_t{1} << static_cast<unsigned>(std::countr_zero(bits));
}

Layout make_layout(ConstMatrixView view) {
  cublasLtMatrixLayout_t layout = nullptr;
  check(libraries().cublasLtMatrixLayoutCreate(&layout, data_type(view.dtype),
                                               static_cast<std::uint64_t>(view.cols),
                                               static_cast<std::uint64_t>(view.rows), view.stride),
        "cublasLtMatrixLayoutCreate");
  return Layout(layout);
}

template <typename T>
void set(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check(libraries().cublasLtMatmulDescSetAttribute(product, attribute, &value, sizeof(value)),
        "cublasLtMatmulDescSetAttribute");
}

template <typename T>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
         const T& value) {
  check(libraries().cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value,
                                                         sizeof(value)),
        "cublasLtMatmulPreferenceSetAttribute");
}

Product make_product(const ProductShape& shape, const void* bias) {
  cublasLtMatmulDesc_t made = nullptr;
  check(libraries().cublasLtMatmulDescCreate(&made, shape.compute, CUDA_R_32F),
        "cublasLtMatmulDescCreate");
  Product product(made);
  set(made, CUBLASLT_MATMUL_DESC_TRANSA, static_cast<std::int32_t>(shape.transpose_b));
  set(made, CUBLASLT_MATMUL_DESC_TRANSB, static_cast<std::int32_t>(shape.transpose_a));
  set(made, CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<std::uint32_t>(CUBLASLT_EPILOGUE_BIAS));
  // Before an algorithm is asked for: how the bias is aligned counts.
  set(made, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  return product;
}

Preference make_preference(const Alignments& alignments) {
  cublasLtMatmulPreference_t made = nullptr;
  check(libraries().cublasLtMatmulPreferenceCreate(&made), "cublasLtMatmulPreferenceCreate");
  Preference preference(made);
  set(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(kWorkspaceBytes));
  // Parts of a sum that is split are kept as f32, and added in a fixed order.
  set(made, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  const auto promise = [made](cublasLtMatmulPreferenceAttributes_t attribute,
                              std::uintptr_t alignment) {
    set(made, attribute, static_cast<std::uint32_t>(alignment));
  };
  promise(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignments.first);
  promise(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignments.second);
  promise(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignments.result);
  promise(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignments.result);
  return preference;
}

// A product that cuBLASLt does not compute is computed without it, and that is said once: only time
// is lost.
void warn_without_bias(const char* call, cublasStatus_t status) {
  static std::once_flag said;
  std::call_once(said, [&] {
    log::warn(
        "cuBLASLt: {}: {} ({}); products of this kind, and others that it refuses, run as a "
        "product "
        "and a pass for the bias",
        call, libraries().cublasGetStatusString(status), libraries().cublasGetStatusName(status));
  });
}

BiasedProduct prepare(CudaQueue& queue, const ProductShape& shape, const void* bias,
                      const Alignments& alignments) {
  BiasedProduct prepared;
  prepared.product = make_product(shape, bias);
  prepared.first = make_layout(shape.b);
  prepared.second = make_layout(shape.a);
  prepared.result = make_layout(shape.c);
  const Preference preference = make_preference(alignments);
  cublasLtMatmulHeuristicResult_t choice{};
  int count = 0;
  const cublasStatus_t status = libraries().cublasLtMatmulAlgoGetHeuristic(
      queue.blas_lt(), prepared.product.get(), prepared.first.get(), prepared.second.get(),
      prepared.result.get(), prepared.result.get(), preference.get(), 1, &choice, &count);
  if (status != CUBLAS_STATUS_SUCCESS) warn_without_bias("cublasLtMatmulAlgoGetHeuristic", status);
  prepared.found = status == CUBLAS_STATUS_SUCCESS && count > 0;
  prepared.algorithm = choice.algo;
  return prepared;
}

// Bias alone, of the type of the result. ReLU stays with apply_epilogue, which keeps NaN; that of
// cuBLASLt is max(x, 0), which may not.
bool is_bias(const Epilogue& epilogue, DType result) {
  return result == DType::kF32 && !epilogue.beta.absent() && epilogue.mean.empty() &&
         epilogue.gamma.absent() && epilogue.function == ActivationFunction::kNone &&
         !epilogue.dropout.active();
}

}  // namespace

bool BiasedProducts::run(CudaQueue& queue, const ProductShape& shape, float beta,
                         const void* bias) {
  const Alignments alignments{alignment_of(shape.b.data), alignment_of(shape.a.data),
                              alignment_of(shape.c.data), alignment_of(bias)};
  const Key key{shape.m,
                shape.n,
                shape.k,
                shape.a.stride,
                shape.b.stride,
                shape.c.stride,
                static_cast<int>(shape.transpose_a),
                static_cast<int>(shape.transpose_b),
                shape.a.dtype,
                static_cast<int>(shape.compute),
                alignments};
  auto found = prepared_.find(key);
  if (found == prepared_.end()) {
    found = prepared_.emplace(key, prepare(queue, shape, bias, alignments)).first;
  }
  BiasedProduct& prepared = found->second;
  if (!prepared.found) return false;
  set(prepared.product.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  const float alpha = 1;
  const Launch& where = queue.launch();
  const cublasStatus_t status = libraries().cublasLtMatmul(
      queue.blas_lt(), prepared.product.get(), &alpha, shape.b.data, prepared.first.get(),
      shape.a.data, prepared.second.get(), &beta, shape.c.data, prepared.result.get(), shape.c.data,
      prepared.result.get(), &prepared.algorithm, where.workspace.data(), where.workspace.size(),
      where.stream);
  if (status == CUBLAS_STATUS_SUCCESS) return true;
  // Nothing was launched. An error of the device itself meets the product that follows, too.
  warn_without_bias("cublasLtMatmul", status);
  prepared.found = false;
  return false;
}

void gemm_in_parts(CudaQueue& queue, std::span<std::byte> rows, Transpose transpose_a,
                   ConstMatrixView a, Transpose transpose_b, ConstMatrixView b, double beta,
                   MatrixView c, const Epilogue& epilogue) {
  const std::int64_t stride = padded_columns(c.cols);
  const std::int64_t step = rows_of_part(static_cast<std::int64_t>(rows.size()), c.cols);
  ATOLL_ASSERT(step > 0, "a row of {} columns in {} bytes", c.cols, rows.size());
  for (std::int64_t begin = 0; begin < c.rows; begin += step) {
    const RowRange range{begin, std::min(begin + step, c.rows)};
    const ConstMatrixView part =
        transpose_a == Transpose::kYes ? a.columns_in(begin, range.size()) : a.rows_in(range);
    const MatrixView sums{rows.data(), range.size(), c.cols, stride, DType::kF32};
    const MatrixView result = c.rows_in(range);
    if (beta != 0) convert(queue.launch(), result, sums);
    plain_product(queue, make_shape(false, transpose_a, part, transpose_b, b, sums),
                  static_cast<float>(beta));
    Epilogue of_part = epilogue;
    if (epilogue.dropout.active()) {
      of_part.dropout.row_ids = epilogue.dropout.row_ids.subspan(
          static_cast<std::size_t>(begin), static_cast<std::size_t>(range.size()));
    }
    apply_epilogue(queue.launch(), sums, of_part, result);
  }
}

void kernel(CudaBackend& backend, Queue& queue, const kernels::Gemm& call) {
  const auto& [transpose_a, a, transpose_b, b, beta, c, epilogue] = call;
  CudaQueue& on = backend.use(queue);
  if (c.dtype == DType::kBf16 && !epilogue.identity()) {
    return gemm_in_parts(on, on.product_rows(), transpose_a, a, transpose_b, b, beta, c, epilogue);
  }
  const ProductShape shape = make_shape(backend.tf32(), transpose_a, a, transpose_b, b, c);
  const auto keep = static_cast<float>(beta);
  if (is_bias(epilogue, c.dtype) && on.products().run(on, shape, keep, epilogue.beta.data)) return;
  plain_product(on, shape, keep);
  if (!epilogue.identity()) apply_epilogue(on.launch(), c, epilogue, c);
}

}  // namespace atl::cuda
