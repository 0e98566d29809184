// Shapes at which kernels change their way: rows without gaps at odd places, rows wider than a team
// of lanes holds, more segments than one launch takes.
#include "tests/kernels/operations.hpp"

namespace atl {

namespace {

struct Shape {
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t padding;
  std::string operation = {};  // empty: all
};

std::vector<Shape> shapes() {
  if (small_tests()) return {{9, 47, 0}, {3, 1032, 0}};
  return {{300, 47, 0}, {300, 47, 1},
          {2600, 8, 0}, {20, 300, 0},
          {3, 512, 0},  {3, 513, 0},
          {3, 1032, 0}, {3, 1030, 0},
          {3, 1100, 5}, {500, 1030, 0, "softmax_cross_entropy"}};  // hundreds of partial sums
}

// Products and SpMM have tests of their own for their ways.
bool is_row_operation(const TestedOperation& operation) {
  return operation.name.find("spmm") == std::string::npos &&
         operation.name.find("gemm") == std::string::npos;
}

class ShapesTest : public ::testing::TestWithParam<OperationCase> {
 protected:
  void SetUp() override { require_backend(std::get<0>(GetParam())); }
};

TEST_P(ShapesTest, EqualsReference) {
  const auto& [backend, dtype, operation] = GetParam();
  Harness tested(backend, 2, dtype);
  Harness oracle("reference", 2, dtype);
  for (const Shape& shape : shapes()) {
    if (!shape.operation.empty() && shape.operation != operation.name) continue;
    const std::string what = operation.name + " " + std::to_string(shape.rows) + " x " +
                             std::to_string(shape.cols) + " + " + std::to_string(shape.padding);
    for (Harness* h : {&tested, &oracle}) h->set_padding(shape.padding);
    const Outputs found = operation.run(tested, shape.rows, shape.cols);
    expect_oracle(found, operation.run(oracle, shape.rows, shape.cols), operation.tolerance,
                  operation.bf16, what);
    tested.finish();
    oracle.finish();
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, ShapesTest,
                         ::testing::ValuesIn(operation_cases(is_row_operation)),
                         operation_case_name);

class SegmentsTest : public BackendTest {};

std::vector<double> adam_parameters(const std::string& backend, std::int64_t count,
                                    const std::vector<AdamSegment>& segments) {
  Harness h(backend);
  const MatrixView parameters = h.matrix(1, count, Use::kInOut, random_floats(count, 1));
  const ConstMatrixView gradients = h.input(1, count, random_floats(count, 2));
  const MatrixView m = h.matrix(1, count, Use::kInOut, random_floats(count, 3));
  std::vector<float> squares = random_floats(count, 4);
  for (float& value : squares) value *= value;
  const MatrixView v = h.matrix(1, count, Use::kInOut, squares);
  AdamSpec spec;
  spec.state = h.epoch_state({1, 0.1, 0.5, 0.25});
  spec.segments = segments;
  h.backend().run(h.queue(), kernels::AdamStep{spec, parameters, gradients, m, v});
  return h.download(parameters);
}

// Segments of 0 to 9 elements, each with a weight decay of its own: they begin and end inside
// vectors, and there are more than one launch takes.
TEST_P(SegmentsTest, HundredsOfShortOnes) {
  std::vector<AdamSegment> segments;
  std::int64_t end = 0;
  for (std::int64_t k = 0; k < 300; ++k) {
    const std::int64_t begin = end;
    end += k * 7 % 10;
    segments.push_back({begin, end, 0.01 * static_cast<double>(k)});
  }
  expect_close(adam_parameters(GetParam(), end, segments),
               adam_parameters("reference", end, segments), 1e-6, "parameters");
}

INSTANTIATE_TEST_SUITE_P(Backends, SegmentsTest, ::testing::ValuesIn(backend_names()),
                         backend_test_name);

}  // namespace

}  // namespace atl
