// Which kernel runs an SpMM on a device: the own one or cuSPARSE's, as chosen, wished or measured.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "kernels/bf16.hpp"
#include "kernels/kernel_choices.hpp"
#include "tests/kernels/cuda_graphs.hpp"

namespace atl {

namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

using Names = std::vector<std::string>;

constexpr const char* kAlgorithms[] = {"cusparse-alg2", "cusparse-alg3"};

class CudaChoiceTest : public ::testing::Test {
 protected:
  void SetUp() override { require_backend("cuda"); }
};

// The same key for both halves of the graph, whose rows are alike.
Graph graph_of_equal_halves() { return Graph({4, 0, 300, 17, 17, 4, 300, 0}); }

KernelKey key_of(const Backend& backend, const Graph& graph, std::int64_t columns,
                 DType dtype = DType::kF32) {
  const std::string device = backend.device();
  return {"spmm",  graph.rows / 2, graph.row_ptr.back() / 2,
          columns, dtype,          device.substr(0, device.find(" (device "))};
}

// Padding by which every row starts at a multiple of 16 bytes, as in training; not 0.
std::int64_t aligning(std::int64_t columns) { return padded_columns(columns + 1) - columns; }

// Choices that name one kernel for the halves of a graph.
struct Chosen {
  std::shared_ptr<KernelChoices> choices = std::make_shared<KernelChoices>();
  Harness harness;

  Chosen(const char* kernel, const Graph& graph, std::int64_t columns, DType dtype = DType::kF32)
      : harness("cuda", {.device = 0, .choices = choices}, dtype) {
    harness.set_padding(aligning(columns));
    choices->record(key_of(harness.backend(), graph, columns, dtype), {kernel, {}, {}});
  }
};

TEST_F(CudaChoiceTest, CusparseIsTakenWhereItWasChosen) {
  const Graph graph = graph_of_equal_halves().with_finite_first_row();
  for (const char* algorithm : kAlgorithms) {
    for (const Spmm& run : {Spmm{.columns = 12}, Spmm{.columns = 12, .beta = 1, .tail = true},
                            Spmm{.columns = 5, .tail = true}}) {
      Chosen found(algorithm, graph, run.columns);
      Harness expected("reference");
      Names kernels;
      expect_close(run.on(found.harness, graph, &kernels), run.on(expected, graph), 5e-6, "y");
      EXPECT_THAT(kernels, ElementsAre(algorithm, algorithm));
    }
  }
}

// Rounded once, as by the own kernel, though the row factors and what follows are not cuSPARSE's.
TEST_F(CudaChoiceTest, CusparseTakesFactorsThatNarrowStorageHolds) {
  const Graph graph = graph_of_equal_halves().with_finite_first_row().without_column_factors();
  for (const char* algorithm : kAlgorithms) {
    for (const Spmm& run :
         {Spmm{.columns = 16}, Spmm{.columns = 16, .beta = 1}, Spmm{.columns = 13, .tail = true},
          Spmm{.columns = 40, .beta = 1, .tail = true}}) {
      Chosen found(algorithm, graph, run.columns, DType::kBf16);
      Harness expected("reference", 2, DType::kBf16);
      Names kernels;
      const std::vector<double> y = run.on(found.harness, graph, &kernels);
      expect_close_bf16(y, run.on(expected, graph), 5e-6, "y");
      EXPECT_THAT(kernels, ElementsAre(algorithm, algorithm));
    }
  }
}

// cuSPARSE's kernels fault where a row does not start at a multiple of 16 bytes.
TEST_F(CudaChoiceTest, RowsThatStartAnywhereStayWithTheOwnKernel) {
  const Graph graph = graph_of_equal_halves();
  for (const char* algorithm : kAlgorithms) {
    const Spmm run{.columns = 12};
    Chosen found(algorithm, graph, run.columns);
    found.harness.set_padding(3);
    Harness expected("reference");
    Names kernels;
    expect_close(run.on(found.harness, graph, &kernels), run.on(expected, graph), 5e-6, "y");
    EXPECT_THAT(kernels, ElementsAre("own", "own"));
  }
}

TEST_F(CudaChoiceTest, WeightsThatNarrowStorageWouldRoundStayWithTheOwnKernel) {
  const Graph graph = graph_of_equal_halves();
  const Spmm run{.columns = 16};
  Chosen found("cusparse-alg3", graph, run.columns, DType::kBf16);
  Harness expected("reference", 2, DType::kBf16);
  Names kernels;
  const std::vector<double> y = run.on(found.harness, graph, &kernels);
  expect_close_bf16(y, run.on(expected, graph), 5e-6, "y");
  EXPECT_THAT(kernels, ElementsAre("own", "own"));
}

// Features that bf16 holds.
std::vector<float> narrow_features(const Graph& graph, std::int64_t columns) {
  std::vector<float> x = graph.features(columns);
  for (float& value : x) value = to_float(to_bf16(value));
  return x;
}

std::vector<double> product_of(Harness& h, const Graph& graph, std::int64_t columns,
                               Lifetime lifetime = Lifetime::kRun) {
  SparseOperator op = graph.upload(h);
  const std::vector<RowRange> ranges{{0, graph.rows / 2}, {graph.rows / 2, graph.rows}};
  const auto made = h.backend().prepare_spmm(h.queue(), op, graph.row_ptr, ranges, lifetime);
  op.prepared = made.get();
  const ConstMatrixView x = h.input(graph.cols, columns, narrow_features(graph, columns));
  const MatrixView y = h.output(graph.rows, columns);
  for (const RowRange range : ranges) h.backend().run(h.queue(), kernels::Spmm{op, range, x, 0, y});
  return h.download(y);
}

// Root of the mean square of relative errors, and the largest.
std::pair<double, double> errors_of(const std::vector<double>& found,
                                    const std::vector<double>& exact) {
  double squares = 0;
  double largest = 0;
  for (std::size_t k = 0; k < exact.size(); ++k) {
    const double error = std::abs(found[k] / exact[k] - 1);
    squares += error * error;
    largest = std::max(largest, error);
  }
  return {std::sqrt(squares / static_cast<double>(exact.size())), largest};
}

// GCN's operator in bf16: column factors round rows of x once more. Against sums of the reference
// that nothing has rounded to bf16, the error of a row with one neighbour grows as two roundings
// do, that of longer rows less, because the errors of neighbours average out (docs/gpu.md).
TEST_F(CudaChoiceTest, ColumnFactorsRoundRowsOfNarrowStorageOnceMore) {
  constexpr double kTwoRoundings = 2.0 / 256;
  for (const auto& [edges, most] : {std::pair(1, 1.6), {4, 1.35}, {16, 1.15}, {300, 1.05}}) {
    const Graph graph =
        Graph(std::vector<std::int64_t>(40, edges)).without_edge_weights().with_finite_first_row();
    Harness reference("reference");
    const std::vector<double> exact = product_of(reference, graph, 64);
    Chosen own("own", graph, 64, DType::kBf16);
    Chosen cusparse("cusparse-alg3", graph, 64, DType::kBf16);
    const std::vector<double> y = product_of(cusparse.harness, graph, 64);
    EXPECT_STREQ(cusparse.harness.backend().last_kernel(), "cusparse-alg3");
    EXPECT_EQ(product_of(cusparse.harness, graph, 64), y) << edges;
    const auto [own_error, own_largest] = errors_of(product_of(own.harness, graph, 64), exact);
    const auto [error, largest] = errors_of(y, exact);
    EXPECT_LT(error, most * own_error) << edges;
    EXPECT_LT(largest, 1.01 * kTwoRoundings) << edges;
    RecordProperty("errors_of_" + std::to_string(edges),
                   std::to_string(own_error) + " " + std::to_string(own_largest) + " " +
                       std::to_string(error) + " " + std::to_string(largest));
  }
}

TEST_F(CudaChoiceTest, KernelsThatPromiseItGiveTheSameBitsEveryTime) {
  const Graph graph = graph_of_equal_halves().with_finite_first_row().without_column_factors();
  const Spmm run{.columns = 16, .beta = 1, .tail = true};
  for (const char* kernel : {"own", "cusparse-alg3"}) {
    for (const DType dtype : {DType::kF32, DType::kBf16}) {
      Chosen first(kernel, graph, run.columns, dtype);
      Chosen second(kernel, graph, run.columns, dtype);
      Names kernels;
      const std::vector<double> y = run.on(first.harness, graph, &kernels);
      EXPECT_THAT(kernels, ElementsAre(kernel, kernel));
      EXPECT_EQ(run.on(first.harness, graph), y) << kernel;
      EXPECT_EQ(run.on(second.harness, graph), y) << kernel;
    }
  }
}

// The algorithm chosen must be the fastest of those allowed: those that promise the same bits, and
// ALG2 where all its runs gave them. The emulated ALG2 adds in alternating order, which shows in
// sums of many edges and not in sums of two.
TEST_F(CudaChoiceTest, AnAlgorithmIsTakenWithoutPromiseIfItsBitsWereEqual) {
  for (const auto& [edges, equal] : {std::pair(300, false), {2, true}}) {
    const Graph graph =
        Graph(std::vector<std::int64_t>(8, edges)).without_edge_weights().with_finite_first_row();
    const auto choices = std::make_shared<KernelChoices>(SpmmWish::kAuto, 0);
    Harness h("cuda", {.device = 0, .choices = choices});
    h.set_padding(aligning(12));
    product_of(h, graph.without_self_weights(), 12);
    const Json list = choices->to_json().at("kernel_choices");
    ASSERT_EQ(list.size(), 1U);
    const std::string device = h.backend().device();
    if (device.find("emulated") != std::string::npos) {
      EXPECT_EQ(list[0].at("repeats"), (Json{{"cusparse-alg2", equal}})) << edges;
    }
    const Json& times = list[0].at("milliseconds");
    std::string fastest = "own";
    for (const char* name : {"cusparse-alg2", "cusparse-alg3"}) {
      const bool allowed =
          !list[0].at("repeats").contains(name) || list[0].at("repeats").at(name).get<bool>();
      if (!allowed || !times.contains(name)) continue;
      if (times.at(name).get<double>() < times.at(fastest).get<double>()) fastest = name;
    }
    EXPECT_EQ(list[0].at("kernel"), fastest) << edges;
  }
}

TEST_F(CudaChoiceTest, MeasuringRecordsTheTimesOfAllAndTakesWhatRepeats) {
  const Graph graph = graph_of_equal_halves().with_finite_first_row();
  for (const double beta : {0.0, 1.0}) {
    const Spmm run{.columns = 12, .beta = beta, .tail = true};
    const auto choices = std::make_shared<KernelChoices>(SpmmWish::kAuto, 0);
    Harness found("cuda", {.device = 0, .choices = choices});
    found.set_padding(aligning(12));
    Harness expected("reference");
    // Measuring an addition does not add more than once.
    expect_close(run.on(found, graph), run.on(expected, graph), 5e-6, "y");
    const auto kernel = choices->lookup(key_of(found.backend(), graph, 12));
    ASSERT_TRUE(kernel.has_value());
    const Json list = choices->to_json().at("kernel_choices");
    ASSERT_EQ(list.size(), 1U);
    const bool alg2_repeats = list[0].at("repeats").at("cusparse-alg2").get<bool>();
    if (!alg2_repeats) {
      EXPECT_THAT(*kernel, AnyOf("own", "cusparse-alg3"));
    }
    for (const char* name : {"own", "cusparse-alg2", "cusparse-alg3"}) {
      EXPECT_TRUE(list[0].at("milliseconds").contains(name)) << name;
    }
    Names kernels;
    run.on(found, graph, &kernels);
    EXPECT_THAT(kernels, ElementsAre(*kernel, *kernel));
  }
}

TEST_F(CudaChoiceTest, AWishForCusparseIsMeasuredAmongItsAlgorithms) {
  const Graph graph = graph_of_equal_halves().with_finite_first_row();
  const auto choices = std::make_shared<KernelChoices>(SpmmWish::kCusparse, 0);
  Harness found("cuda", {.device = 0, .choices = choices});
  found.set_padding(aligning(12));
  Names kernels;
  Spmm{.columns = 12}.on(found, graph, &kernels);
  EXPECT_THAT(kernels, SizeIs(2));
  for (const std::string& kernel : kernels) EXPECT_THAT(kernel, StartsWith("cusparse-alg"));
}

TEST_F(CudaChoiceTest, SmallMatricesAreNotMeasured) {
  const Graph graph = graph_of_equal_halves().with_finite_first_row();
  const Spmm run{.columns = 12};
  const auto kernels_by = [&](SpmmWish wish, KernelChoices& choices) {
    const std::shared_ptr<KernelChoices> shared(&choices, [](KernelChoices*) {});
    Harness h("cuda", {.device = 0, .choices = shared});
    h.set_padding(aligning(12));
    Names kernels;
    run.on(h, graph, &kernels);
    EXPECT_EQ(choices.wish(), wish);
    return kernels;
  };
  KernelChoices measured(SpmmWish::kAuto);
  EXPECT_THAT(kernels_by(SpmmWish::kAuto, measured), ElementsAre("own", "own"));
  EXPECT_THAT(measured.to_json().at("kernel_choices"), IsEmpty());
  KernelChoices wished(SpmmWish::kCusparse);
  EXPECT_THAT(kernels_by(SpmmWish::kCusparse, wished),
              ElementsAre("cusparse-alg3", "cusparse-alg3"));
  const Json list = wished.to_json().at("kernel_choices");
  ASSERT_EQ(list.size(), 1U);
  EXPECT_EQ(list[0].at("kernel"), "cusparse-alg3");
  EXPECT_THAT(list[0].at("milliseconds"), IsEmpty());
}

// Nor does a calibration file get a line for each of them, or say what runs there.
TEST_F(CudaChoiceTest, OperatorsOfOneStepAreNotMeasured) {
  const Graph graph =
      Graph(std::vector<std::int64_t>(8, 300)).without_edge_weights().with_finite_first_row();
  for (const auto& [wish, kernel] : {std::pair(SpmmWish::kAuto, "own"),
                                     {SpmmWish::kOwn, "own"},
                                     {SpmmWish::kCusparse, "cusparse-alg3"}}) {
    const auto choices = std::make_shared<KernelChoices>(wish, 0);
    Harness h("cuda", {.device = 0, .choices = choices});
    h.set_padding(aligning(12));
    Harness expected("reference");
    expect_close(product_of(h, graph, 12, Lifetime::kStep), product_of(expected, graph, 12), 5e-6,
                 "y");
    EXPECT_STREQ(h.backend().last_kernel(), kernel);
    EXPECT_THAT(choices->to_json().at("kernel_choices"), IsEmpty());
  }
}

// One preparation for several numbers of columns and strides, as a model's layers have them: each
// is prepared by itself, and the copy of the matrix is made once.
TEST_F(CudaChoiceTest, ColumnsAndStridesShareOneCopyOfTheMatrix) {
  const Graph graph = graph_of_equal_halves().with_finite_first_row();
  const auto choices = std::make_shared<KernelChoices>(SpmmWish::kCusparse);
  Harness h("cuda", {.device = 0, .choices = choices});
  const RowRange range{0, graph.rows};
  SparseOperator op = graph.upload(h);
  const auto made = h.backend().prepare_spmm(h.queue(), op, graph.row_ptr, std::vector{range});
  op.prepared = made.get();
  std::vector<std::int64_t> allocations;
  for (const auto& [columns, padding] : {std::pair(12, 0), {12, 4}, {12, 8}, {20, 0}, {12, 0}}) {
    h.set_padding(padding);
    const ConstMatrixView x = h.input(graph.cols, columns, graph.features(columns));
    const MatrixView y = h.output(graph.rows, columns);
    Harness expected("reference");
    const ConstMatrixView same_x = expected.input(graph.cols, columns, graph.features(columns));
    const MatrixView same_y = expected.output(graph.rows, columns);
    expected.backend().run(expected.queue(),
                           kernels::Spmm{graph.upload(expected), range, same_x, 0, same_y});
    const std::int64_t before = h.backend().allocations();
    h.backend().run(h.queue(), kernels::Spmm{op, range, x, 0, y});
    allocations.push_back(h.backend().allocations() - before);
    EXPECT_STREQ(h.backend().last_kernel(), "cusparse-alg3");
    expect_close(h.download(y), expected.download(same_y), 5e-6, "y");
  }
  // Rows, columns, values and a number on its way to the host; a workspace for each new shape.
  EXPECT_THAT(allocations, ElementsAre(5, 1, 1, 1, 0));
}

}  // namespace

}  // namespace atl
