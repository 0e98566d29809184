// Every operation on every backend against the oracle, and its independence of the thread count.
#include "tests/kernels/operations.hpp"

#include <bit>

namespace atl {

const std::vector<Operation>& operations() {
  static const std::vector<Operation> all = [] {
    std::vector<Operation> list;
    for (const auto& group :
         {sparse_operations(), dense_operations(), normalization_operations(), loss_operations()}) {
      list.insert(list.end(), group.begin(), group.end());
    }
    return list;
  }();
  return all;
}

namespace {

struct Size {
  std::int64_t rows;
  std::int64_t cols;
};

std::vector<Size> sizes() {
  std::vector<Size> list;
  for (const std::int64_t rows : {0, 1, 31, 32, 33, 257}) {
    for (const std::int64_t cols : {1, 3, 64, 100, 256}) list.push_back({rows, cols});
  }
  list.push_back({2600, 5});  // several chunks of every sum over rows
  return list;
}

std::string label(const Operation& operation, const Size& size) {
  return std::string(operation.name) + " " + std::to_string(size.rows) + " x " +
         std::to_string(size.cols);
}

class OracleTest : public ::testing::TestWithParam<std::tuple<std::string, Operation>> {
 protected:
  void SetUp() override { require_backend(std::get<0>(GetParam())); }
};

TEST_P(OracleTest, EqualsReference) {
  const auto& [backend, operation] = GetParam();
  for (const Size& size : sizes()) {
    Harness tested(backend);
    Harness oracle("reference");
    const Outputs found = operation.run(tested, size.rows, size.cols);
    const Outputs expected = operation.run(oracle, size.rows, size.cols);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t k = 0; k < found.size(); ++k) {
      expect_close(found[k], expected[k], operation.tolerance,
                   label(operation, size) + ", output " + std::to_string(k));
    }
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, OracleTest,
                         ::testing::Combine(::testing::Values("cpu", "cuda"),
                                            ::testing::ValuesIn(operations())),
                         [](const auto& test) {
                           return std::get<0>(test.param) + "_" + std::get<1>(test.param).name;
                         });

class ThreadsTest : public ::testing::TestWithParam<Operation> {};

// A number that changes with the threads would make runs unrepeatable on another machine.
TEST_P(ThreadsTest, SameBitsWithAnyNumber) {
  const Operation& operation = GetParam();
  for (const Size size : {Size{257, 100}, Size{2600, 5}}) {
    Harness one("cpu", 1);
    const Outputs expected = operation.run(one, size.rows, size.cols);
    for (const int threads : {2, 3}) {
      Harness many("cpu", threads);
      const Outputs found = operation.run(many, size.rows, size.cols);
      ASSERT_EQ(found.size(), expected.size());
      for (std::size_t k = 0; k < found.size(); ++k) {
        ASSERT_EQ(found[k].size(), expected[k].size());
        for (std::size_t i = 0; i < found[k].size(); ++i) {
          ASSERT_EQ(std::bit_cast<std::uint64_t>(found[k][i]),
                    std::bit_cast<std::uint64_t>(expected[k][i]))
              << label(operation, size) << ", output " << k << ", element " << i << ", " << threads
              << " threads";
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, ThreadsTest, ::testing::ValuesIn(operations()),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace

}  // namespace atl
