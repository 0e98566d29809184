// Duties of the cuda backend beyond the contract: SpMM of rows of every length, recordings that
// fail.
#include <gmock/gmock.h>

#include <cstring>
#include <stdexcept>

#include "tests/kernels/cuda_graphs.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {

namespace {

using ::testing::HasSubstr;

class CudaBackendTest : public ::testing::Test {
 protected:
  void SetUp() override { require_backend("cuda"); }
};

// Rows that a few lanes take, a block takes and several blocks take, in both ranges.
Graph graph_of_all_kinds() {
  return Graph({0, 1, 5, 300, 33, 9000, 2, 255, 256, 0, 4096, 40, 4095, 7, 31, 32});
}

void expect_same_as_reference(const Spmm& run, const Graph& graph, DType storage,
                              std::int64_t padding) {
  SCOPED_TRACE(fmt::format("columns {}, beta {}, prepared {}, tail {}, dtype {}, padding {}",
                           run.columns, run.beta, run.prepared, run.tail, static_cast<int>(storage),
                           padding));
  Harness found("cuda", 2, storage);
  Harness expected("reference", 2, storage);
  found.set_padding(padding);
  const std::vector<double> oracle = run.on(expected, graph);
  if (storage == DType::kBf16) {
    expect_close_bf16(run.on(found, graph), oracle, 5e-6, "y");
  } else {
    expect_close(run.on(found, graph), oracle, 5e-6, "y");
  }
}

// Every shape of a team, aligned for 16 bytes or not, more than one tile of columns, and rows that
// end inside of an access.
TEST_F(CudaBackendTest, SpmmOfRowsOfEveryLength) {
  const Graph graph = graph_of_all_kinds();
  for (const std::int64_t columns : {1, 6, 8, 16, 20, 31, 64, 130, 256, 264}) {
    for (const DType storage : {DType::kF32, DType::kBf16}) {
      expect_same_as_reference({.columns = columns}, graph, storage, 0);
    }
  }
  for (const std::int64_t columns : {1, 7, 13, 41, 47, 602}) {
    const std::int64_t padding = padded_columns(columns) - columns;
    for (const DType storage : {DType::kF32, DType::kBf16}) {
      expect_same_as_reference({.columns = columns, .beta = 1, .tail = true}, graph, storage,
                               padding);
    }
  }
  expect_same_as_reference({.columns = 33, .beta = 1, .tail = true}, graph, DType::kF32, 3);
  expect_same_as_reference({.columns = 40, .beta = 1, .tail = true}, graph, DType::kBf16, 8);
  expect_same_as_reference({.columns = 40, .prepared = false, .tail = true}, graph, DType::kF32, 0);
}

// Too wide for the partial sums of a split row: its row is not split then.
TEST_F(CudaBackendTest, SpmmOfVeryWideMatrices) {
  const Graph graph({2, 4200, 0, 1});
  expect_same_as_reference({.columns = 8300}, graph, DType::kF32, 0);
}

TEST_F(CudaBackendTest, SpmmGivesTheSameBitsEveryTime) {
  const Graph graph = graph_of_all_kinds();
  for (const std::int64_t columns : {3, 256}) {
    const Spmm run{.columns = columns};
    Harness first("cuda");
    Harness second("cuda");
    EXPECT_EQ(run.on(first, graph), run.on(second, graph));
    EXPECT_EQ(run.on(first, graph), run.on(second, graph));
  }
}

TEST_F(CudaBackendTest, AnErrorWhileRecordingLeavesTheQueueUsable) {
  Harness h("cuda");
  const MatrixView y = h.matrix(4, 4, Use::kInOut, std::vector<float>(16, 1));
  const auto record = [&] {
    h.backend().record(h.queue(), [&] {
      h.backend().run(h.queue(), kernels::FillZero{y});
      throw std::runtime_error("in the middle");
    });
  };
  EXPECT_THROW(record(), std::runtime_error);
  EXPECT_EQ(h.download(y), std::vector<double>(16, 1));
  h.backend().run(h.queue(), kernels::FillZero{y});
  EXPECT_EQ(h.download(y), std::vector<double>(16, 0));
}

TEST_F(CudaBackendTest, WhatARecordingMayNotDo) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a fork can't use the device of its parent
  Harness h("cuda");
  const auto recorded = [&](const std::function<void()>& body) {
    h.backend().record(h.queue(), body);
  };
  float number = 0;
  const MatrixView y = h.matrix(1, 1, Use::kInOut, std::vector<float>{1});
  EXPECT_DEATH(recorded([&] { h.backend().allocate(8); }), "while recording");
  EXPECT_DEATH(recorded([&] { h.backend().synchronize(h.queue()); }), "while recording");
  EXPECT_DEATH(
      recorded([&] { h.backend().copy(h.queue(), y.data, &number, 4, CopyKind::kHostToDevice); }),
      "pageable memory while recording");
}

// Memory released inside a recording is released, but only after it.
TEST_F(CudaBackendTest, ReleasesDuringARecordingWaitForItsEnd) {
  Harness h("cuda");
  void* data = h.backend().allocate(64);
  void* staging = h.backend().allocate_staging(64);
  const MatrixView y = h.matrix(4, 4, Use::kInOut, std::vector<float>(16, 1));
  const auto recording = h.backend().record(h.queue(), [&] {
    h.backend().release(data);
    h.backend().release_staging(staging);
    h.backend().run(h.queue(), kernels::FillZero{y});
  });
  h.backend().replay(h.queue(), *recording);
  EXPECT_EQ(h.download(y), std::vector<double>(16, 0));
}

TEST_F(CudaBackendTest, BackendsOnOneDeviceSayThatTheyShareIt) {
  const auto first = make_backend("cuda", {.device = 0});
  const auto second = make_backend("cuda", {.device = 0});
  EXPECT_EQ(first->device_id(), second->device_id());
  EXPECT_THAT(first->device(), HasSubstr("(device 0, sm_"));
}

}  // namespace

}  // namespace atl
