// Every operation of the contract as a function of a size, for tests that compare two runs of it.
#pragma once

#include <vector>

#include "tests/kernels/harness.hpp"

namespace atl {

using Outputs = std::vector<std::vector<double>>;

struct Operation {
  const char* name;
  Outputs (*run)(Harness& harness, std::int64_t rows, std::int64_t cols);
  double tolerance;  // of f32 against the oracle, see expect_close; 0 = same numbers
};

const std::vector<Operation>& operations();
std::vector<Operation> sparse_operations();
std::vector<Operation> dense_operations();
std::vector<Operation> normalization_operations();
std::vector<Operation> loss_operations();

}  // namespace atl
