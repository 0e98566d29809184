// Libraries and drivers that refuse: what the emulated device does on demand, and a real one some
// day.
#include <cublasLt.h>
#include <cuda_emulation.h>
#include <cusparse.h>
#include <gmock/gmock.h>

#include "kernels/kernel_choices.hpp"
#include "tests/kernels/cuda_graphs.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {

namespace {

using ::testing::HasSubstr;

class CudaFailures : public ::testing::Test {
 protected:
  void TearDown() override { cuda_emulation::clear_errors(); }
};

// y = x w + bias, which cuBLASLt computes where it can.
std::vector<double> biased_product(Harness& h) {
  const ConstMatrixView x = h.input(6, 8, random_floats(48, 1));
  const ConstMatrixView w = h.input(8, 4, random_floats(32, 2));
  const MatrixView y = h.output(6, 4);
  Epilogue bias;
  bias.beta = h.matrix<float>(1, 4, Use::kInput, random_floats(4, 3));
  h.backend().gemm(h.queue(), Transpose::kNo, x, Transpose::kNo, w, 0, y, bias);
  return h.download(y);
}

TEST_F(CudaFailures, AProductThatCublasLtRefusesRunsWithoutIt) {
  Harness expected("reference");
  const std::vector<double> oracle = biased_product(expected);
  for (const cublasStatus_t status : {CUBLAS_STATUS_NOT_SUPPORTED, CUBLAS_STATUS_INTERNAL_ERROR}) {
    Harness h("cuda", {.device = 0});
    expect_close(biased_product(h), oracle, 1e-6, "before");
    cuda_emulation::fail_next_call("cublasLtMatmul", status);
    expect_close(biased_product(h), oracle, 1e-6, "refused");
    expect_close(biased_product(h), oracle, 1e-6, "after");
  }
}

TEST_F(CudaFailures, WhatCusparseRefusesIsNoCandidate) {
  const Graph graph({4, 300, 17, 4, 300, 17});
  for (const cusparseStatus_t status :
       {CUSPARSE_STATUS_NOT_SUPPORTED, CUSPARSE_STATUS_ALLOC_FAILED}) {
    const auto choices = std::make_shared<KernelChoices>(SpmmWish::kAuto, 0);
    Harness h("cuda", {.device = 0, .choices = choices});
    Harness expected("reference");
    h.set_padding(0);
    cuda_emulation::fail_next_call("cusparseSpMM_preprocess", status);
    const Spmm run{.width = 12};
    expect_close(run.on(h, graph), run.on(expected, graph), 5e-6, "y");
    const Json times = choices->to_json().at("kernel_choices")[0].at("milliseconds");
    EXPECT_FALSE(times.contains("cusparse-alg2"));
    EXPECT_TRUE(times.contains("cusparse-alg3"));
  }
}

TEST_F(CudaFailures, ADeviceWithoutPoolsHasPlainMemory) {
  cuda_emulation::fail_next_call("cudaMemPoolCreate", cudaErrorNotSupported);
  Harness h("cuda", {.device = 0});
  Harness expected("reference");
  const std::int64_t free = h.backend().available_bytes();
  void* data = h.backend().allocate(1 << 20);
  EXPECT_EQ(h.backend().available_bytes(), free - (1 << 20));
  h.backend().release(data);
  EXPECT_EQ(h.backend().available_bytes(), free);
  const Graph graph({4, 300, 17, 4});
  const Spmm run{.width = 12, .tail = true};
  expect_close(run.on(h, graph), run.on(expected, graph), 5e-6, "y");
  const Error error = thrown_error([&] { h.backend().allocate(std::int64_t{1} << 50); });
  EXPECT_EQ(error.kind(), ErrorKind::kMemory);
}

TEST_F(CudaFailures, SizesThatNoDeviceHasAreAQuestionOfMemory) {
  Harness h("cuda", {.device = 0});
  cuda_emulation::fail_next_call("cudaMallocFromPoolAsync", cudaErrorInvalidValue);
  const Error large = thrown_error([&] { h.backend().allocate(std::int64_t{1} << 50); });
  EXPECT_EQ(large.kind(), ErrorKind::kMemory);
  EXPECT_THAT(large.what(), HasSubstr("of device memory asked for"));
  cuda_emulation::fail_next_call("cudaMallocFromPoolAsync", cudaErrorInvalidValue);
  const Error small = thrown_error([&] { h.backend().allocate(64); });
  EXPECT_EQ(small.kind(), ErrorKind::kDevice);
  EXPECT_THAT(small.what(), HasSubstr("cudaMallocFromPoolAsync"));
}

TEST_F(CudaFailures, PagesThatCannotBeLockedAreAQuestionOfMemory) {
  Harness h("cuda", {.device = 0});
  cuda_emulation::fail_next_call("cudaHostAlloc", cudaErrorOperatingSystem);
  const Error error = thrown_error([&] { h.backend().allocate_staging(64); });
  EXPECT_EQ(error.kind(), ErrorKind::kMemory);
  EXPECT_THAT(error.what(), HasSubstr("ulimit -l"));
}

}  // namespace

}  // namespace atl
