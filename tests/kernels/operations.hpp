// Every operation of the contract as a function of a size, for tests that compare two runs of it.
#pragma once

#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "tests/kernels/harness.hpp"

namespace atl {

using Outputs = std::vector<Output>;

// How an operation's numbers in bf16 compare with the oracle's: the same bits, or up to one step of
// bf16 beside the tolerance. kNone: it has no matrices that could be stored as bf16.
enum class Bf16Case { kNone, kSame, kOneStep };

struct TestedOperation {
  std::string name;
  std::function<Outputs(Harness& harness, std::int64_t rows, std::int64_t cols)> run;
  double tolerance;  // of sums in f32 against the oracle, see expect_close; 0 = same numbers
  Bf16Case bf16 = Bf16Case::kOneStep;
};
void PrintTo(const TestedOperation& operation, std::ostream* out);

const std::vector<TestedOperation>& operations();
// Every operation in the types that its matrices may be stored in.
std::vector<std::tuple<DType, TestedOperation>> typed_operations();
inline std::string name_of(DType dtype, const TestedOperation& operation) {
  return std::string(to_string(dtype)) + "_" + operation.name;
}
// All of them on the backends that are held against the reference.
using OperationCase = std::tuple<std::string, DType, TestedOperation>;
std::vector<OperationCase> operation_cases(bool (*wanted)(const TestedOperation&));
inline std::string operation_case_name(const ::testing::TestParamInfo<OperationCase>& test) {
  return std::get<0>(test.param) + "_" + name_of(std::get<1>(test.param), std::get<2>(test.param));
}
std::vector<TestedOperation> sparse_operations();
std::vector<TestedOperation> attention_operations();
std::vector<TestedOperation> wire_operations();
std::vector<TestedOperation> dense_operations();
std::vector<TestedOperation> gemm_operations();
std::vector<TestedOperation> normalization_operations();
std::vector<TestedOperation> loss_operations();

// Where the epoch of dropout comes from: the key, or an EpochState whose epoch differs from it.
enum class Dropout { kNone, kKey, kState };

struct EpilogueParts {
  bool norm = false;
  bool gamma = false;
  bool beta = false;
  ActivationFunction function = ActivationFunction::kNone;
  Dropout dropout = Dropout::kNone;
};
Epilogue make_epilogue(Harness& h, std::int64_t rows, std::int64_t cols, EpilogueParts parts);
std::string label(EpilogueParts parts);
std::vector<EpilogueParts> all_epilogues();

// A directed graph: row 2 is a hub, every fifth row is empty, the rest have 1 to 6 in-edges, some
// of them duplicates; a third as many halo columns as rows.
struct TestGraph {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<std::int64_t> row_ptr{0};
  std::vector<std::int32_t> col_idx;

  TestGraph(std::int64_t n, std::int64_t hub);
};
SparseOperator upload(Harness& h, const TestGraph& graph);

struct SpmmCase {
  bool values = false;
  bool scales = false;  // row_scale and col_scale
  bool self_weight = false;
  bool part = false;      // some rows only
  bool prepared = false;  // for two ranges, each of which is asked for unless `part`
  double beta = 0;
  EpilogueParts epilogue{};
};
Outputs run_spmm(Harness& h, std::int64_t rows, std::int64_t cols, const SpmmCase& which);

struct GemmCase {
  Transpose transpose_a = Transpose::kNo;
  Transpose transpose_b = Transpose::kNo;
  double beta = 0;
  bool wide = false;  // c is f32 whatever a is
  EpilogueParts epilogue{};
};
Outputs run_gemm(Harness& h, std::int64_t rows, std::int64_t cols, const GemmCase& which);

Outputs run_apply_epilogue(Harness& h, std::int64_t rows, std::int64_t cols, EpilogueParts parts,
                           bool in_place);

// Compares outputs of one operation on a backend with the oracle's.
void expect_oracle(const Outputs& found, const Outputs& expected, double tolerance, Bf16Case bf16,
                   const std::string& what);

}  // namespace atl
