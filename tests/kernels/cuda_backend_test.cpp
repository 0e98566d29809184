// What the cuda backend does beyond the contract: SpMM of rows of every length, the choice between
// two kernels, recordings that fail.
#include <gmock/gmock.h>

#include <cstring>
#include <limits>
#include <stdexcept>

#include "kernels/kernel_choices.hpp"
#include "tests/kernels/harness.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {

namespace {

using ::testing::HasSubstr;

class CudaBackendTest : public ::testing::Test {
 protected:
  void SetUp() override { require_backend("cuda"); }
};

// A graph whose rows have the given numbers of edges, with as many halo columns as rows, duplicates
// among the edges, and numbers for all factors. Every third row has no self weight.
struct Graph {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<std::int64_t> row_ptr{0};
  std::vector<std::int32_t> col_idx;
  std::vector<float> values;
  std::vector<float> row_scale;
  std::vector<float> col_scale;
  std::vector<float> self_weight;

  explicit Graph(const std::vector<std::int64_t>& edges)
      : rows(static_cast<std::int64_t>(edges.size())), cols(2 * rows) {
    for (std::size_t i = 0; i < edges.size(); ++i) {
      for (const std::int32_t c :
           random_integers(edges[i], static_cast<std::int32_t>(cols), 50 + i)) {
        col_idx.push_back(c % 3 == 0 ? (c + 1) % static_cast<std::int32_t>(cols) : c);
      }
      row_ptr.push_back(static_cast<std::int64_t>(col_idx.size()));
    }
    values = positive(static_cast<std::int64_t>(col_idx.size()), 1);
    row_scale = positive(rows, 2);
    col_scale = positive(cols, 3);
    self_weight = positive(rows, 4);
    for (std::size_t i = 0; i < self_weight.size(); i += 3) self_weight[i] = 0;
  }

  // Nothing cancels, so that f32 sums of thousands of edges are known to f32.
  static std::vector<float> positive(std::int64_t count, std::uint64_t seed) {
    std::vector<float> numbers = random_floats(count, seed);
    for (float& number : numbers) number = 1 + number / 2;
    return numbers;
  }

  SparseOperator upload(Harness& h) const {
    SparseOperator op;
    op.rows = rows;
    op.cols = cols;
    op.row_ptr = h.input_span(row_ptr);
    op.col_idx = h.input_span(col_idx);
    op.values = h.input_span(values);
    op.row_scale = h.input_span(row_scale);
    op.col_scale = h.input_span(col_scale);
    op.self_weight = h.input_span(self_weight);
    return op;
  }

  // x for width columns. Rows that no edge and no self weight asks for are NaN: reading them shows.
  std::vector<float> features(std::int64_t width) const {
    std::vector<bool> asked(static_cast<std::size_t>(cols), false);
    for (const std::int32_t c : col_idx) asked[static_cast<std::size_t>(c)] = true;
    for (std::size_t i = 0; i < self_weight.size(); ++i) {
      if (self_weight[i] != 0) asked[i] = true;
    }
    std::vector<float> x = positive(cols * width, 5);
    for (std::size_t k = 0; k < x.size(); ++k) {
      if (!asked[k / static_cast<std::size_t>(width)])
        x[k] = std::numeric_limits<float>::quiet_NaN();
    }
    return x;
  }
};

// One spmm over two ranges, as the engine runs it.
struct Spmm {
  std::int64_t width = 1;
  double beta = 0;
  bool planned = true;
  bool tail = false;  // bias, relu and dropout

  std::vector<double> on(Harness& h, const Graph& graph) const {
    SparseOperator op = graph.upload(h);
    const std::vector<RowRange> ranges{{0, graph.rows / 2}, {graph.rows / 2, graph.rows}};
    const auto plan =
        planned ? h.backend().plan_spmm(h.queue(), op, graph.row_ptr, ranges) : nullptr;
    op.plan = plan.get();
    const ConstMatrixView x = h.input(graph.cols, width, graph.features(width));
    // What is overwritten is not read.
    const std::vector<float> before =
        beta == 0 ? std::vector<float>(static_cast<std::size_t>(graph.rows * width),
                                       std::numeric_limits<float>::quiet_NaN())
                  : Graph::positive(graph.rows * width, 6);
    const MatrixView y = h.matrix(graph.rows, width, Use::kInOut, before);
    const auto ids = h.input_span(row_ids(graph.rows));
    for (const RowRange range : ranges) {
      Epilogue epilogue;
      if (tail) {
        epilogue.beta = h.matrix<float>(1, width, Use::kInput, random_floats(width, 7));
        epilogue.relu = true;
        epilogue.dropout = {{9, RandomStream::kDropout, 1, 2},
                            dropout_threshold(0.25),
                            ids.subspan(static_cast<std::size_t>(range.begin),
                                        static_cast<std::size_t>(range.size()))};
      }
      h.backend().spmm(h.queue(), op, range, x, beta, y, epilogue);
    }
    return h.download(y);
  }

  static std::vector<GlobalId> row_ids(std::int64_t rows) {
    std::vector<GlobalId> ids;
    for (std::int64_t i = 0; i < rows; ++i) ids.push_back(GlobalId{1000 - 3 * i});
    return ids;
  }
};

// Rows that a few lanes take, a block takes and several blocks take, in both ranges.
Graph graph_of_all_kinds() {
  return Graph({0, 1, 5, 300, 33, 9000, 2, 255, 256, 0, 4096, 40, 4095, 7, 31, 32});
}

void expect_same_as_reference(const Spmm& run, const Graph& graph, DType storage,
                              std::int64_t padding) {
  SCOPED_TRACE(fmt::format("width {}, beta {}, planned {}, tail {}, dtype {}, padding {}",
                           run.width, run.beta, run.planned, run.tail, static_cast<int>(storage),
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

// Every shape of a team, aligned for 16 bytes, for 8 and not at all, more than one tile of columns.
TEST_F(CudaBackendTest, SpmmOfRowsOfEveryLength) {
  const Graph graph = graph_of_all_kinds();
  for (const std::int64_t width : {1, 6, 8, 16, 20, 31, 64, 130, 256, 264}) {
    for (const DType storage : {DType::kF32, DType::kBf16}) {
      expect_same_as_reference({.width = width}, graph, storage, 0);
    }
  }
  expect_same_as_reference({.width = 33, .beta = 1, .tail = true}, graph, DType::kF32, 3);
  expect_same_as_reference({.width = 40, .beta = 1, .tail = true}, graph, DType::kBf16, 8);
  expect_same_as_reference({.width = 40, .planned = false, .tail = true}, graph, DType::kF32, 0);
}

// Too wide for the partial sums of a split row: its row is not split then.
TEST_F(CudaBackendTest, SpmmOfVeryWideMatrices) {
  const Graph graph({2, 4200, 0, 1});
  expect_same_as_reference({.width = 8300}, graph, DType::kF32, 0);
}

TEST_F(CudaBackendTest, SpmmGivesTheSameBitsEveryTime) {
  const Graph graph = graph_of_all_kinds();
  for (const std::int64_t width : {3, 256}) {
    const Spmm run{.width = width};
    Harness first("cuda");
    Harness second("cuda");
    EXPECT_EQ(run.on(first, graph), run.on(second, graph));
    EXPECT_EQ(run.on(first, graph), run.on(second, graph));
  }
}

// The same key for both halves of the graph, whose rows are alike.
Graph graph_of_equal_halves() { return Graph({4, 0, 300, 17, 17, 4, 300, 0}); }

KernelKey key_of(const Backend& backend, const Graph& graph, std::int64_t width) {
  const std::string device = backend.device();
  return {"spmm", graph.rows / 2, graph.row_ptr.back() / 2,
          width,  DType::kF32,    device.substr(0, device.find(" (device "))};
}

TEST_F(CudaBackendTest, CusparseIsTakenWhereItWasChosen) {
  const Graph graph = graph_of_equal_halves();
  for (const Spmm& run : {Spmm{.width = 12}, Spmm{.width = 12, .beta = 1, .tail = true},
                          Spmm{.width = 5, .tail = true}}) {
    const auto choices = std::make_shared<KernelChoices>();
    Harness found("cuda", {.device = 0, .choices = choices});
    Harness expected("reference");
    choices->record(key_of(found.backend(), graph, run.width), {"cusparse", {}});
    expect_close(run.on(found, graph), run.on(expected, graph), 5e-6, "y");
  }
}

TEST_F(CudaBackendTest, MeasuringRecordsAChoiceOnce) {
  const Graph graph = graph_of_equal_halves();
  const auto choices = std::make_shared<KernelChoices>(true);
  Harness found("cuda", {.device = 0, .choices = choices});
  Harness expected("reference");
  const KernelKey key = key_of(found.backend(), graph, 12);
  const Spmm overwritten{.width = 12, .tail = true};
  expect_close(overwritten.on(found, graph), overwritten.on(expected, graph), 5e-6, "y");
  ASSERT_TRUE(choices->lookup(key).has_value());
  const Json list = choices->to_json().at("kernel_choices");
  ASSERT_EQ(list.size(), 1U);
  EXPECT_TRUE(list[0].at("milliseconds").contains("own"));
  EXPECT_TRUE(list[0].at("milliseconds").contains("cusparse"));
}

// A run that only adds repeats from its own calibration, too: the choice is recorded, and measuring
// does not add a second time.
TEST_F(CudaBackendTest, MeasuringAnAdditionAddsOnce) {
  const Graph graph = graph_of_equal_halves();
  const auto choices = std::make_shared<KernelChoices>(true);
  Harness found("cuda", {.device = 0, .choices = choices});
  Harness expected("reference");
  const Spmm added{.width = 12, .beta = 1, .tail = true};
  expect_close(added.on(found, graph), added.on(expected, graph), 5e-6, "y");
  EXPECT_TRUE(choices->lookup(key_of(found.backend(), graph, 12)).has_value());
}

TEST_F(CudaBackendTest, AnErrorWhileRecordingLeavesTheQueueUsable) {
  Harness h("cuda");
  const MatrixView y = h.matrix(4, 4, Use::kInOut, std::vector<float>(16, 1));
  const auto record = [&] {
    h.backend().record(h.queue(), [&] {
      h.backend().fill_zero(h.queue(), y);
      throw std::runtime_error("in the middle");
    });
  };
  EXPECT_THROW(record(), std::runtime_error);
  EXPECT_EQ(h.download(y), std::vector<double>(16, 1));
  h.backend().fill_zero(h.queue(), y);
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
    h.backend().fill_zero(h.queue(), y);
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
