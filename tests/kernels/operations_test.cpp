// Every operation on every backend against the oracle, and its repeatability.
#include "tests/kernels/operations.hpp"

#include <bit>

#include "base/workers.hpp"

namespace atl {

const std::vector<TestedOperation>& operations() {
  static const std::vector<TestedOperation> all = [] {
    std::vector<TestedOperation> list;
    for (const auto& group :
         {sparse_operations(), attention_operations(), wire_operations(), dense_operations(),
          gemm_operations(), normalization_operations(), loss_operations()}) {
      list.insert(list.end(), group.begin(), group.end());
    }
    return list;
  }();
  return all;
}

std::vector<std::tuple<DType, TestedOperation>> typed_operations() {
  std::vector<std::tuple<DType, TestedOperation>> list;
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    for (const TestedOperation& operation : operations()) {
      if (dtype == DType::kBf16 && operation.bf16 == Bf16Case::kNone) continue;
      list.emplace_back(dtype, operation);
    }
  }
  return list;
}

std::vector<OperationCase> operation_cases(bool (*wanted)(const TestedOperation&)) {
  std::vector<OperationCase> cases;
  for (const std::string backend : {"cpu", "cuda"}) {
    for (const auto& [dtype, operation] : typed_operations()) {
      if (wanted(operation)) cases.emplace_back(backend, dtype, operation);
    }
  }
  return cases;
}

void PrintTo(const TestedOperation& operation, std::ostream* out) { *out << operation.name; }

void expect_oracle(const Outputs& found, const Outputs& expected, double tolerance, Bf16Case bf16,
                   const std::string& what) {
  // n signed terms of about 1/3, added one after the other in f32, end about 6e-9 n off (partial
  // sums grow as the root of n, each is rounded to 2^-24 of itself). Allowed are six times that,
  // times the 2.5 of the largest factor in an epilogue. One term of the n missing is far more, and
  // so are factors rounded to TF32.
  constexpr double kPerTerm = 1e-7;
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t k = 0; k < found.size(); ++k) {
    ASSERT_EQ(found[k].dtype, expected[k].dtype);
    const double bound = std::max(tolerance, kPerTerm * static_cast<double>(found[k].terms));
    const auto compare = found[k].dtype == DType::kBf16 && bf16 == Bf16Case::kOneStep
                             ? expect_close_bf16
                             : expect_close;
    compare(found[k].values, expected[k].values, bound, what + ", output " + std::to_string(k));
  }
}

namespace {

struct Size {
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t padding = 3;
};

std::vector<Size> sizes() {
  if (small_tests()) return {{0, 3}, {1, 1}, {33, 3}, {33, 64, 0}, {9, 13, 3}};
  std::vector<Size> list;
  for (const std::int64_t rows : {0, 1, 31, 32, 33, 257}) {
    for (const std::int64_t cols : {3, 100}) list.push_back({rows, cols});
  }
  for (const std::int64_t rows : {33, 257}) {
    for (const std::int64_t cols : {1, 64, 256}) list.push_back({rows, cols});
  }
  list.push_back({2600, 5});  // several chunks of every sum over rows
  // Rows that start at multiples of 16 bytes, as the engine lays them out.
  for (const Size size : {Size{33, 64, 0}, Size{257, 256, 0}, Size{257, 100, 28}, Size{33, 1, 0},
                          Size{40, 1000, 0}, Size{70, 47, 1}, Size{33, 602, 6}}) {
    list.push_back(size);
  }
  return list;
}

std::string label(const TestedOperation& operation, const Size& size) {
  return operation.name + " " + std::to_string(size.rows) + " x " + std::to_string(size.cols);
}

void expect_same_bits(const Outputs& found, const Outputs& expected, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t k = 0; k < found.size(); ++k) {
    ASSERT_EQ(found[k].values.size(), expected[k].values.size());
    for (std::size_t i = 0; i < found[k].values.size(); ++i) {
      ASSERT_EQ(std::bit_cast<std::uint64_t>(found[k].values[i]),
                std::bit_cast<std::uint64_t>(expected[k].values[i]))
          << what << ", output " << k << ", element " << i;
    }
  }
}

class OracleTest : public ::testing::TestWithParam<OperationCase> {
 protected:
  void SetUp() override { require_backend(std::get<0>(GetParam())); }
};

TEST_P(OracleTest, EqualsReference) {
  const auto& [backend, dtype, operation] = GetParam();
  Harness tested(backend, 2, dtype);
  Harness oracle("reference", 2, dtype);
  for (const Size& size : sizes()) {
    SCOPED_TRACE(label(operation, size));
    for (Harness* h : {&tested, &oracle}) h->set_padding(size.padding);
    const Outputs found = operation.run(tested, size.rows, size.cols);
    const Outputs expected = operation.run(oracle, size.rows, size.cols);
    expect_oracle(found, expected, operation.tolerance, operation.bf16, label(operation, size));
    tested.finish();
    oracle.finish();
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

TEST_P(OracleTest, RunsTwiceToTheSameBits) {
  const auto& [backend, dtype, operation] = GetParam();
  Harness h(backend, 2, dtype);
  const auto sizes =
      small_tests() ? std::vector<Size>{{33, 8}} : std::vector<Size>{{257, 100}, {2600, 5, 0}};
  for (const Size size : sizes) {
    h.set_padding(size.padding);
    const Outputs first = operation.run(h, size.rows, size.cols);
    expect_same_bits(operation.run(h, size.rows, size.cols), first, label(operation, size));
    h.finish();
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, OracleTest,
                         ::testing::ValuesIn(operation_cases([](const TestedOperation&) {
                           return true;
                         })),
                         operation_case_name);

class ThreadsTest : public ::testing::TestWithParam<std::tuple<DType, TestedOperation>> {};

// A number that changes with the threads would make runs unrepeatable on another machine.
TEST_P(ThreadsTest, SameBitsWithAnyNumber) {
  const auto& [dtype, operation] = GetParam();
  for (const Size size : {Size{997, 100}, Size{19991, 5}}) {
    ASSERT_EQ(threads_for(size.rows * size.cols, 3), 3);
    Harness one("cpu", 1, dtype);
    const Outputs expected = operation.run(one, size.rows, size.cols);
    for (const int threads : {2, 3}) {
      Harness many("cpu", threads, dtype);
      expect_same_bits(operation.run(many, size.rows, size.cols), expected,
                       label(operation, size) + ", " + std::to_string(threads) + " threads");
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, ThreadsTest, ::testing::ValuesIn(typed_operations()),
                         [](const auto& test) {
                           return name_of(std::get<0>(test.param), std::get<1>(test.param));
                         });

}  // namespace

}  // namespace atl
