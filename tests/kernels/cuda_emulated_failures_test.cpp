// Libraries and drivers that refuse: what the emulated device does on demand, and a real one some
// day.
#include <cublasLt.h>
#include <cuda_emulation.h>
#include <cusparse.h>
#include <gmock/gmock.h>

#include <optional>

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
  h.backend().run(h.queue(), kernels::Gemm{Transpose::kNo, x, Transpose::kNo, w, 0, y, bias});
  return h.download(y);
}

TEST_F(CudaFailures, AProductThatCublasLtRefusesRunsWithoutIt) {
  Harness expected("reference");
  const std::vector<double> oracle = biased_product(expected);
  for (const cublasStatus_t status : {CUBLAS_STATUS_NOT_SUPPORTED, CUBLAS_STATUS_INTERNAL_ERROR}) {
    Harness h("cuda", {.device = 0});
    expect_close(biased_product(h), oracle, 1e-6, "before");
    cuda_emulation::fail_next_calls("cublasLtMatmul", status);
    expect_close(biased_product(h), oracle, 1e-6, "refused");
    expect_close(biased_product(h), oracle, 1e-6, "after");
  }
}

// A handle takes a library long to make.
TEST_F(CudaFailures, HandlesGoFromQueueToQueue) {
  Harness expected("reference");
  std::size_t made = 0;
  for (int turn = 0; turn < 4; ++turn) {
    if (turn == 1) made = cuda_emulation::library_handles_made();
    Harness h("cuda", {.device = 0});
    Harness other("cuda", {.device = 0});
    expect_close(biased_product(h), biased_product(expected), 1e-6, "y");
    expect_close(biased_product(other), biased_product(expected), 1e-6, "y");
  }
  EXPECT_EQ(cuda_emulation::library_handles_made(), made);
}

TEST_F(CudaFailures, WhatCusparseRefusesIsNoCandidate) {
  const Graph graph = Graph({4, 300, 17, 4, 300, 17}).with_finite_first_row();
  for (const cusparseStatus_t status :
       {CUSPARSE_STATUS_NOT_SUPPORTED, CUSPARSE_STATUS_ALLOC_FAILED}) {
    const auto choices = std::make_shared<KernelChoices>(SpmmWish::kAuto, 0);
    Harness h("cuda", {.device = 0, .choices = choices});
    Harness expected("reference");
    h.set_padding(0);
    cuda_emulation::fail_next_calls("cusparseSpMM_preprocess", status);
    const Spmm run{.columns = 12};
    expect_close(run.on(h, graph), run.on(expected, graph), 5e-6, "y");
    const Json times = choices->to_json().at("kernel_choices")[0].at("milliseconds");
    EXPECT_FALSE(times.contains("cusparse-alg2"));
    EXPECT_TRUE(times.contains("cusparse-alg3"));
  }
}

// Products on one device, whose first rows were prepared: as a model's layers meet them.
struct Products {
  const Graph graph = Graph({4, 300, 17, 4, 300, 17}).with_finite_first_row();
  std::shared_ptr<KernelChoices> choices;
  Harness h;
  SparseOperator op = graph.upload(h);
  std::shared_ptr<const PreparedSparse> made =
      h.backend().prepare_spmm(h.queue(), op, graph.row_ptr, std::vector{all()});
  std::optional<std::int64_t> bytes_left;  // of the device's memory while a product runs

  explicit Products(SpmmWish wish)
      : choices(std::make_shared<KernelChoices>(wish, wish == SpmmWish::kAuto ? 0 : 1'000'000)),
        h("cuda", {.device = 0, .choices = choices}) {
    op.prepared = made.get();
  }

  RowRange all() const { return {0, graph.rows}; }
  KernelKey key(std::int64_t columns) {
    const std::string device = h.backend().device();
    return {"spmm",  graph.rows,  graph.row_ptr.back(),
            columns, DType::kF32, device.substr(0, device.find(" (device "))};
  }
  // Checks a product and says which kernel ran it.
  std::string run(std::int64_t columns, std::int64_t padding, double beta = 0) {
    h.set_padding(padding);
    Harness expected("reference");
    const std::vector<float> before = Graph::positive(graph.rows * columns, 6);
    const auto y_of = [&](Harness& on, const SparseOperator& by) {
      const ConstMatrixView x = on.input(graph.cols, columns, graph.features(columns));
      const MatrixView y = on.matrix(graph.rows, columns, Use::kInOut, before);
      Backend& backend = on.backend();
      void* rest = nullptr;
      if (&on == &h && bytes_left) rest = backend.allocate(backend.available_bytes() - *bytes_left);
      backend.run(on.queue(), kernels::Spmm{by, all(), x, beta, y});
      if (rest != nullptr) backend.release(rest);
      return on.download(y);
    };
    const std::vector<double> found = y_of(h, op);
    const std::string kernel = h.backend().last_kernel();
    expect_close(found, y_of(expected, graph.upload(expected)), 5e-6, "y");
    return kernel;
  }
};

// A choice of an earlier run, or strides that come later: cuSPARSE may refuse what it was chosen
// for.
TEST_F(CudaFailures, WhatWasChosenAndIsRefusedRunsByTheOwnKernelFromThenOn) {
  for (const char* call : {"cusparseCreateCsr", "cusparseSpMM_bufferSize",
                           "cusparseSpMM_preprocess", "cusparseSpMM"}) {
    for (const cusparseStatus_t status :
         {CUSPARSE_STATUS_NOT_SUPPORTED, CUSPARSE_STATUS_INSUFFICIENT_RESOURCES,
          CUSPARSE_STATUS_INVALID_VALUE, CUSPARSE_STATUS_ARCH_MISMATCH,
          CUSPARSE_STATUS_ALLOC_FAILED}) {
      for (const double beta : {0.0, 1.0}) {
        Products stored(SpmmWish::kOwn);
        stored.choices->record(stored.key(12), {"cusparse-alg3", {{"own", 2}}, {}});
        cuda_emulation::fail_next_calls(call, status);
        EXPECT_EQ(stored.run(12, 0, beta), "own") << call;
        EXPECT_EQ(stored.run(12, 0, beta), "own") << call;
        // The decision is kept, with what was measured.
        EXPECT_EQ(stored.choices->lookup(stored.key(12)), "own");
        const Json list = stored.choices->to_json().at("kernel_choices");
        EXPECT_EQ(list[0].at("milliseconds"), (Json{{"own", 2.0}}));
        EXPECT_EQ(stored.choices->changes(), 2);
      }
    }
  }
}

TEST_F(CudaFailures, ANewStrideThatIsRefusedEndsCusparseForItsColumns) {
  Products products(SpmmWish::kCusparse);
  EXPECT_EQ(products.run(12, 0), "cusparse-alg3");
  EXPECT_EQ(products.run(20, 0), "cusparse-alg3");
  cuda_emulation::fail_next_calls("cusparseSpMM_preprocess",
                                  CUSPARSE_STATUS_INSUFFICIENT_RESOURCES);
  EXPECT_EQ(products.run(12, 4), "own");
  EXPECT_EQ(products.run(12, 0), "own");
  EXPECT_EQ(products.run(20, 0), "cusparse-alg3");
  EXPECT_EQ(products.choices->lookup(products.key(12)), "own");
  EXPECT_EQ(products.choices->lookup(products.key(20)), "cusparse-alg3");
}

TEST_F(CudaFailures, WhatFailsInCusparseIsNoRefusal) {
  for (const cusparseStatus_t status :
       {CUSPARSE_STATUS_EXECUTION_FAILED, CUSPARSE_STATUS_INTERNAL_ERROR,
        CUSPARSE_STATUS_NOT_INITIALIZED}) {
    Products products(SpmmWish::kCusparse);
    EXPECT_EQ(products.run(12, 0), "cusparse-alg3");
    cuda_emulation::fail_next_calls("cusparseSpMM", status);
    const Error error = thrown_error([&] { products.run(12, 0); });
    EXPECT_EQ(error.kind(), ErrorKind::kDevice);
    EXPECT_THAT(error.what(), HasSubstr("cuSPARSE: cusparseSpMM"));
  }
}

// Measuring an addition takes a matrix of its own; the copy of the operator is there already.
TEST_F(CudaFailures, WithoutMemoryForAMeasurementTheOwnKernelRuns) {
  Products products(SpmmWish::kAuto);
  products.run(20, 0);
  products.bytes_left = 0;
  EXPECT_EQ(products.run(12, 0, 1), "own");
  const Json list = products.choices->to_json().at("kernel_choices");
  EXPECT_EQ(list[0].at("width"), 12);
  EXPECT_EQ(list[0].at("kernel"), "own");
  EXPECT_EQ(list[0].at("milliseconds"), Json::object());
}

// The last memory of a device is not for what only saves time.
TEST_F(CudaFailures, CusparseLeavesMemoryToTheRest) {
  Products products(SpmmWish::kCusparse);
  products.bytes_left = std::int64_t{200} << 20;
  EXPECT_EQ(products.run(12, 0), "own");
  products.bytes_left.reset();
  EXPECT_EQ(products.run(12, 0), "own");
  EXPECT_EQ(products.choices->lookup(products.key(12)), "own");
  EXPECT_EQ(products.run(20, 0), "cusparse-alg3");
}

// The copy that measuring has made goes when the products that were measured come back without it.
TEST_F(CudaFailures, ACopyThatNoProductNeedsIsGivenBack) {
  const Graph graph = Graph({4, 300, 17, 4, 300, 17}).with_finite_first_row();
  const auto choices = std::make_shared<KernelChoices>(SpmmWish::kAuto, 0);
  // Without pools memory is free at once.
  cuda_emulation::fail_next_calls("cudaMemPoolCreate", cudaErrorNotSupported);
  Harness h("cuda", {.device = 0, .choices = choices});
  h.set_padding(0);
  SparseOperator op = graph.upload(h);
  const RowRange range{0, graph.rows};
  const auto made = h.backend().prepare_spmm(h.queue(), op, graph.row_ptr, std::vector{range});
  op.prepared = made.get();
  const ConstMatrixView x = h.input(graph.cols, 12, graph.features(12));
  const MatrixView y = h.output(graph.rows, 12);
  const auto used = [&] {
    h.backend().synchronize(h.queue());
    return cuda_emulation::allocated_bytes();
  };
  const std::size_t before = used();
  cuda_emulation::fail_next_calls("cusparseSpMM_preprocess", CUSPARSE_STATUS_NOT_SUPPORTED, 2);
  h.backend().run(h.queue(), kernels::Spmm{op, range, x, 0, y});
  EXPECT_GT(used(), before);
  const std::vector<double> first = h.download(y);
  h.backend().run(h.queue(), kernels::Spmm{op, range, x, 0, y});
  EXPECT_STREQ(h.backend().last_kernel(), "own");
  EXPECT_EQ(h.download(y), first);
  EXPECT_EQ(used(), before);
}

TEST_F(CudaFailures, ADeviceWithoutPoolsHasPlainMemory) {
  cuda_emulation::fail_next_calls("cudaMemPoolCreate", cudaErrorNotSupported);
  Harness h("cuda", {.device = 0});
  Harness expected("reference");
  const std::int64_t free = h.backend().available_bytes();
  void* data = h.backend().allocate(1 << 20);
  EXPECT_EQ(h.backend().available_bytes(), free - (1 << 20));
  h.backend().release(data);
  EXPECT_EQ(h.backend().available_bytes(), free);
  const Graph graph({4, 300, 17, 4});
  const Spmm run{.columns = 12, .tail = true};
  expect_close(run.on(h, graph), run.on(expected, graph), 5e-6, "y");
  const Error error = thrown_error([&] { h.backend().allocate(std::int64_t{1} << 50); });
  EXPECT_EQ(error.kind(), ErrorKind::kMemory);
}

TEST_F(CudaFailures, SizesThatNoDeviceHasAreAQuestionOfMemory) {
  Harness h("cuda", {.device = 0});
  cuda_emulation::fail_next_calls("cudaMallocFromPoolAsync", cudaErrorInvalidValue);
  const Error large = thrown_error([&] { h.backend().allocate(std::int64_t{1} << 50); });
  EXPECT_EQ(large.kind(), ErrorKind::kMemory);
  EXPECT_THAT(large.what(), HasSubstr("of device memory asked for"));
  cuda_emulation::fail_next_calls("cudaMallocFromPoolAsync", cudaErrorInvalidValue);
  const Error small = thrown_error([&] { h.backend().allocate(64); });
  EXPECT_EQ(small.kind(), ErrorKind::kDevice);
  EXPECT_THAT(small.what(), HasSubstr("cudaMallocFromPoolAsync"));
}

TEST_F(CudaFailures, PagesThatCannotBeLockedAreAQuestionOfMemory) {
  Harness h("cuda", {.device = 0});
  cuda_emulation::fail_next_calls("cudaHostAlloc", cudaErrorOperatingSystem);
  const Error error = thrown_error([&] { h.backend().allocate_staging(64); });
  EXPECT_EQ(error.kind(), ErrorKind::kMemory);
  EXPECT_THAT(error.what(), HasSubstr("ulimit -l"));
}

}  // namespace

}  // namespace atl
