// The emulated cuBLAS, cuBLASLt and cuSPARSE against literal results.
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cusparse.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "tests/cuda_emulation/fixtures.hpp"

namespace atl::samples {
namespace {

using testing::ElementsAre;
using Floats = std::vector<float>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<__nv_bfloat16> to_bf16(const Floats& values) {
  std::vector<__nv_bfloat16> rounded;
  for (const float value : values) rounded.push_back(__float2bfloat16_rn(value));
  return rounded;
}

class EmulatedBlas : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cublasCreate(&handle_), CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(cublasSetStream(handle_, stream_), CUBLAS_STATUS_SUCCESS);
  }
  void TearDown() override { cublasDestroy(handle_); }

  TestStream stream_;
  cublasHandle_t handle_ = nullptr;
  const float one_ = 1;
  const float zero_ = 0;
};

// Columns of a: (1,2), (3,4), (5,6); of b: (1,0,2), (0,1,3).
const Floats kA{1, 2, 3, 4, 5, 6};
const Floats kB{1, 0, 2, 0, 1, 3};

TEST_F(EmulatedBlas, Product) {
  const DeviceArray<float> a(kA);
  const DeviceArray<float> b(kB);
  const DeviceArray<float> c(4);  // poison, not read where beta is 0
  ASSERT_EQ(cublasSgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 3, &one_, a.get(), 2, b.get(), 3,
                        &zero_, c.get(), 2),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_THAT(c.download(), ElementsAre(11, 14, 18, 22));
}

TEST_F(EmulatedBlas, ProductOfTransposedIntoPaddedColumns) {
  const DeviceArray<float> at(Floats{1, 3, 5, 2, 4, 6});  // 3 x 2
  const DeviceArray<float> bt(Floats{1, 0, 0, 1, 2, 3});  // 2 x 3
  const DeviceArray<float> c(Floats{1, 1, -7, 1, 1, -7});
  const float alpha = 2;
  const float beta = 10;
  ASSERT_EQ(cublasGemmEx(handle_, CUBLAS_OP_T, CUBLAS_OP_T, 2, 2, 3, &alpha, at.get(), CUDA_R_32F,
                         3, bt.get(), CUDA_R_32F, 2, &beta, c.get(), CUDA_R_32F, 3,
                         CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_THAT(c.download(), ElementsAre(32, 38, -7, 46, 54, -7));
}

TEST_F(EmulatedBlas, ProductOfBfloat16) {
  const DeviceArray<__nv_bfloat16> a(to_bf16(kA));
  const DeviceArray<__nv_bfloat16> b(to_bf16(kB));
  const DeviceArray<float> c(4);
  ASSERT_EQ(cublasGemmEx_64(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 3, &one_, a.get(), CUDA_R_16BF,
                            2, b.get(), CUDA_R_16BF, 3, &zero_, c.get(), CUDA_R_32F, 2,
                            CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_THAT(c.download(), ElementsAre(11, 14, 18, 22));
}

TEST_F(EmulatedBlas, Tf32DropsBitsOfTheInputs) {
  const DeviceArray<float> a(Floats{1.0f + 1.0f / 4096});  // one bit more than tf32 has, and 0.5
  const DeviceArray<float> b(Floats{1});
  const DeviceArray<float> c(2);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(cublasGemmEx(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one_, a.get(), CUDA_R_32F,
                           1, b.get(), CUDA_R_32F, 1, &zero_, c.get() + i, CUDA_R_32F, 1,
                           i == 0 ? CUBLAS_COMPUTE_32F : CUBLAS_COMPUTE_32F_FAST_TF32,
                           CUBLAS_GEMM_DEFAULT),
              CUBLAS_STATUS_SUCCESS);
  }
  EXPECT_THAT(c.download(), ElementsAre(1.0f + 1.0f / 4096, 1));
}

TEST_F(EmulatedBlas, RefusesWhatTheLibraryRefuses) {
  const DeviceArray<float> a(kA);
  EXPECT_EQ(cublasSgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 3, &one_, a.get(), 1, a.get(), 3,
                        &zero_, a.get(), 2),
            CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(cublasGemmEx(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one_, a.get(), CUDA_R_32F, 1,
                         a.get(), CUDA_R_16BF, 1, &zero_, a.get(), CUDA_R_32F, 1,
                         CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
            CUBLAS_STATUS_NOT_SUPPORTED);
}

// 2 x 3 times 3 x 2 with an epilogue; returns the result and the status.
class EmulatedBlasLt : public EmulatedBlas {
 protected:
  Floats product(cublasLtEpilogue_t epilogue, std::size_t first_of_a = 0) {
    cublasLtHandle_t handle = nullptr;
    cublasLtMatmulDesc_t description = nullptr;
    cublasLtMatrixLayout_t layouts[3] = {};
    cublasLtMatmulPreference_t preference = nullptr;
    cublasLtCreate(&handle);
    cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    cublasLtMatmulDescSetAttribute(description, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                   sizeof(epilogue));
    const DeviceArray<float> bias(Floats{-20, 100});
    const void* bias_pointer = bias.get();
    cublasLtMatmulDescSetAttribute(description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias_pointer,
                                   sizeof(bias_pointer));
    cublasLtMatrixLayoutCreate(&layouts[0], CUDA_R_32F, 2, 3, 2);
    cublasLtMatrixLayoutCreate(&layouts[1], CUDA_R_32F, 3, 2, 3);
    cublasLtMatrixLayoutCreate(&layouts[2], CUDA_R_32F, 2, 2, 2);
    cublasLtMatmulPreferenceCreate(&preference);
    cublasLtMatmulHeuristicResult_t choice{};
    int count = 0;
    EXPECT_EQ(
        cublasLtMatmulAlgoGetHeuristic(handle, description, layouts[0], layouts[1], layouts[2],
                                       layouts[2], preference, 1, &choice, &count),
        CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(count, 1);
    Floats padded(first_of_a, 0.0f);
    padded.insert(padded.end(), kA.begin(), kA.end());
    const DeviceArray<float> a(padded);
    const DeviceArray<float> b(kB);
    const DeviceArray<float> d(Floats{kNan, 1, 1, 1});
    status_ = cublasLtMatmul(handle, description, &one_, a.get() + first_of_a, layouts[0], b.get(),
                             layouts[1], &beta_, d.get(), layouts[2], d.get(), layouts[2],
                             &choice.algo, nullptr, 0, stream_);
    const Floats result = d.download();
    for (const auto layout : layouts) cublasLtMatrixLayoutDestroy(layout);
    cublasLtMatmulPreferenceDestroy(preference);
    cublasLtMatmulDescDestroy(description);
    cublasLtDestroy(handle);
    return result;
  }

  cublasStatus_t status_ = CUBLAS_STATUS_SUCCESS;
  float beta_ = 0;
};

TEST_F(EmulatedBlasLt, Epilogues) {
  EXPECT_THAT(product(CUBLASLT_EPILOGUE_DEFAULT), ElementsAre(11, 14, 18, 22));
  EXPECT_THAT(product(CUBLASLT_EPILOGUE_BIAS), ElementsAre(-9, 114, -2, 122));
  EXPECT_THAT(product(CUBLASLT_EPILOGUE_RELU_BIAS), ElementsAre(0, 114, 0, 122));
  beta_ = -20;
  EXPECT_THAT(product(CUBLASLT_EPILOGUE_RELU), ElementsAre(0, 0, 0, 2));
}

TEST_F(EmulatedBlasLt, KeepsTheAlignmentThatItWasPromised) {
  product(CUBLASLT_EPILOGUE_DEFAULT, 1);
  EXPECT_EQ(status_, CUBLAS_STATUS_INVALID_VALUE);
}

class EmulatedSparse : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cusparseCreate(&handle_), CUSPARSE_STATUS_SUCCESS);
    ASSERT_EQ(cusparseSetStream(handle_, stream_), CUSPARSE_STATUS_SUCCESS);
  }
  void TearDown() override { cusparseDestroy(handle_); }

  // c = alpha * a * b + beta * c for a 3 x 4 matrix a with an empty row and b of two columns, in
  // rows of four elements.
  template <typename Offset>
  void multiply(cusparseIndexType_t offset_type, float alpha, float beta) {
    const DeviceArray<Offset> offsets(std::vector<Offset>{0, 2, 2, 3});
    const DeviceArray<int> columns(std::vector<int>{3, 0, 1});
    const DeviceArray<float> weights(Floats{2, 1, -1});
    const DeviceArray<float> b(
        Floats{1, 2, kNan, kNan, 3, 4, kNan, kNan, 9, 9, kNan, kNan, 5, 6, kNan, kNan});
    const DeviceArray<char> buffer(1024);
    cusparseConstSpMatDescr_t sparse = nullptr;
    cusparseConstDnMatDescr_t from = nullptr;
    cusparseDnMatDescr_t to = nullptr;
    ASSERT_EQ(cusparseCreateConstCsr(&sparse, 3, 4, 3, offsets.get(), columns.get(), weights.get(),
                                     offset_type, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO,
                                     CUDA_R_32F),
              CUSPARSE_STATUS_SUCCESS);
    ASSERT_EQ(cusparseCreateConstDnMat(&from, 4, 2, 4, b.get(), CUDA_R_32F, CUSPARSE_ORDER_ROW),
              CUSPARSE_STATUS_SUCCESS);
    ASSERT_EQ(cusparseCreateDnMat(&to, 3, 2, 4, c_.get(), CUDA_R_32F, CUSPARSE_ORDER_ROW),
              CUSPARSE_STATUS_SUCCESS);
    std::size_t bytes = 0;
    const cusparseOperation_t as_is = CUSPARSE_OPERATION_NON_TRANSPOSE;
    ASSERT_EQ(cusparseSpMM_bufferSize(handle_, as_is, as_is, &alpha, sparse, from, &beta, to,
                                      CUDA_R_32F, CUSPARSE_SPMM_CSR_ALG3, &bytes),
              CUSPARSE_STATUS_SUCCESS);
    ASSERT_LE(bytes, buffer.bytes());
    ASSERT_EQ(cusparseSpMM(handle_, as_is, as_is, &alpha, sparse, from, &beta, to, CUDA_R_32F,
                           CUSPARSE_SPMM_CSR_ALG3, buffer.get()),
              CUSPARSE_STATUS_SUCCESS);
    cusparseDestroySpMat(sparse);
    cusparseDestroyDnMat(from);
    cusparseDestroyDnMat(to);
    require(cudaStreamSynchronize(stream_));
  }

  Floats result() const {
    const Floats rows = c_.download();
    return {rows[0], rows[1], rows[4], rows[5], rows[8], rows[9]};
  }

  TestStream stream_;
  cusparseHandle_t handle_ = nullptr;
  DeviceArray<float> c_{12};
};

TEST_F(EmulatedSparse, Product) {
  multiply<std::int64_t>(CUSPARSE_INDEX_64I, 1, 0);
  EXPECT_THAT(result(), ElementsAre(11, 14, 0, 0, -3, -4));
  multiply<std::int32_t>(CUSPARSE_INDEX_32I, 2, 1);
  EXPECT_THAT(result(), ElementsAre(33, 42, 0, 0, -9, -12));
}

TEST_F(EmulatedSparse, RowsThatStartAnywhereAreRefused) {
  cusparseDnMatDescr_t dense = nullptr;
  cusparseSpMatDescr_t sparse = nullptr;
  const DeviceArray<int> offsets(std::vector<int>{0, 1});
  const DeviceArray<float> one(Floats{1});
  const DeviceArray<float> rows(3);
  std::size_t bytes = 0;
  const float alpha = 1;
  const cusparseOperation_t as_is = CUSPARSE_OPERATION_NON_TRANSPOSE;
  // As of the library: no more entries than elements.
  EXPECT_EQ(cusparseCreateCsr(&sparse, 1, 1, 2, offsets.get(), offsets.get(), one.get(),
                              CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO,
                              CUDA_R_32F),
            CUSPARSE_STATUS_INVALID_VALUE);
  ASSERT_EQ(cusparseCreateCsr(&sparse, 1, 1, 1, offsets.get(), offsets.get(), one.get(),
                              CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO,
                              CUDA_R_32F),
            CUSPARSE_STATUS_SUCCESS);
  ASSERT_EQ(cusparseCreateDnMat(&dense, 1, 3, 3, rows.get(), CUDA_R_32F, CUSPARSE_ORDER_ROW),
            CUSPARSE_STATUS_SUCCESS);
  EXPECT_EQ(cusparseSpMM_bufferSize(handle_, as_is, as_is, &alpha, sparse, dense, &alpha, dense,
                                    CUDA_R_32F, CUSPARSE_SPMM_CSR_ALG2, &bytes),
            CUSPARSE_STATUS_INVALID_VALUE);
  cusparseDestroySpMat(sparse);
  cusparseDestroyDnMat(dense);
}

}  // namespace
}  // namespace atl::samples
