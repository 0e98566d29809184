// Broken contracts end the program with the operation's name; allowed oddities do not.
#include <array>

#include "tests/kernels/harness.hpp"

namespace atl {

namespace {

class ContractDeathTest : public ::testing::Test {
 protected:
  // Memory of the host is enough: these calls must stop before they compute.
  MatrixView view(std::int64_t rows, std::int64_t cols, std::int64_t offset = 0) {
    return {memory_.data() + offset, rows, cols, cols};
  }
  MatrixView other(std::int64_t rows, std::int64_t cols) { return view(rows, cols, 128); }

  std::array<float, 256> memory_{};
  Harness h{"reference"};
};

TEST_F(ContractDeathTest, Shapes) {
  EXPECT_DEATH(h.backend().run(h.queue(), kernels::Convert{view(2, 3), other(3, 2)}),
               "convert y: 3 x 2 found");
  EXPECT_DEATH(h.backend().run(h.queue(), kernels::Gemm{Transpose::kNo, view(2, 3), Transpose::kNo,
                                                        view(2, 3), 0, other(2, 3)}),
               "gemm b: 2 x 3 found, 3 x 3 expected");
  EXPECT_DEATH(h.backend().run(h.queue(), kernels::ColumnSums{view(2, 3), false, other(2, 3)}),
               "column_sums out: 2 x 3 found, 1 x 3 expected");
}

TEST_F(ContractDeathTest, ElementTypes) {
  MatrixView bf16 = view(2, 2);
  bf16.dtype = DType::kBf16;
  MatrixView f64 = other(2, 2);
  f64.dtype = DType::kF64;
  Harness cpu("cpu");
  EXPECT_DEATH(cpu.backend().run(cpu.queue(), kernels::FillZero{f64}),
               "fill_zero y: dtype 2 on backend cpu");
  EXPECT_DEATH(cpu.backend().run(cpu.queue(), kernels::Convert{f64, view(2, 2)}),
               "convert x: dtype 2");
  EXPECT_DEATH(h.backend().run(h.queue(), kernels::ApplyEpilogue{view(2, 2), {}, f64}),
               "dtype 2 found, 0 expected");
  EXPECT_DEATH(h.backend().run(h.queue(), kernels::ColumnSums{bf16, false, f64.rows_in({0, 1})}),
               "column_sums out: dtype 2 found, 0 expected");
}

// c may be as wide as parameters are, but no wider; a and b are of one type.
TEST_F(ContractDeathTest, ElementTypesOfGemm) {
  MatrixView a = view(2, 2);
  a.dtype = DType::kBf16;
  MatrixView c = other(2, 2);
  EXPECT_DEATH(h.backend().run(h.queue(), kernels::Gemm{Transpose::kNo, a, Transpose::kNo,
                                                        view(2, 2, 8), 0, c}),
               "gemm b: dtype 0 found, 1 expected");
  c.dtype = DType::kF64;
  EXPECT_DEATH(
      h.backend().run(h.queue(), kernels::Gemm{Transpose::kNo, a, Transpose::kNo, a, 0, c}),
      "gemm c: dtype 2 found, 1 expected");
  EXPECT_DEATH(h.backend().run(h.queue(), kernels::Gemm{Transpose::kNo, view(2, 2), Transpose::kNo,
                                                        view(2, 2), 0.5, other(2, 2)}),
               "gemm beta 0.5");
}

TEST_F(ContractDeathTest, PartsOfAnEpilogue) {
  const std::vector<double> three(3, 1);
  const auto apply = [&](const Epilogue& epilogue) {
    h.backend().run(h.queue(), kernels::ApplyEpilogue{view(2, 2), epilogue, other(2, 2)});
  };
  const auto multiply = [&](const Epilogue& epilogue) {
    h.backend().run(h.queue(), kernels::Gemm{Transpose::kNo, view(2, 2), Transpose::kNo, view(2, 2),
                                             0, other(2, 2), epilogue});
  };
  Epilogue mean;
  mean.mean = three;
  EXPECT_DEATH(apply(mean), "epilogue mean: 3 entries found, 2 expected");
  EXPECT_DEATH(multiply(mean), "epilogue mean: 3 entries found, 2 expected");
  mean.mean = std::span(three).first(2);
  EXPECT_DEATH(apply(mean), "epilogue inv_std: 0 entries found, 2 expected");
  Epilogue bias;
  bias.beta = view(1, 3, 8);
  EXPECT_DEATH(multiply(bias), "epilogue gamma or beta: 1 x 3 found, 1 x 2 expected");
  bias.beta = other(1, 2);
  EXPECT_DEATH(multiply(bias), "epilogue y and gamma or beta overlap");
  Epilogue dropout;
  dropout.dropout.rate = dropout_threshold(0.5);
  EXPECT_DEATH(multiply(dropout), "dropout row_ids: 0 entries found, 2 expected");
}

TEST_F(ContractDeathTest, StridesAndMissingData) {
  MatrixView narrow = view(2, 4);
  narrow.stride = 3;
  EXPECT_DEATH(h.backend().run(h.queue(), kernels::FillZero{narrow}), "stride 3, 4 columns");
  EXPECT_DEATH(h.backend().run(h.queue(), kernels::FillZero{{nullptr, 2, 2, 2}}),
               "2 x 2 without data");
}

TEST_F(ContractDeathTest, Overlap) {
  EXPECT_DEATH(h.backend().run(h.queue(), kernels::Convert{view(4, 4), view(4, 4)}),
               "convert y and x overlap");
  EXPECT_DEATH(h.backend().run(h.queue(), kernels::Convert{view(4, 4), view(4, 4, 15)}), "overlap");
  EXPECT_DEATH(h.backend().run(h.queue(), kernels::ApplyEpilogue{view(4, 4), {}, view(4, 4, 4)}),
               "overlap");
  EXPECT_DEATH(
      h.backend().run(h.queue(), kernels::Combine{1, view(4, 4), 1, view(4, 4, 4), view(4, 4)}),
      "combine y and z overlap");
}

TEST_F(ContractDeathTest, RowsAndFactorsOfSpmm) {
  const std::vector<std::int64_t> row_ptr{0, 0, 0};
  const std::vector<float> three(3, 1);
  SparseOperator op;
  op.rows = 2;
  op.cols = 2;
  op.row_ptr = row_ptr;
  EXPECT_DEATH(h.backend().run(h.queue(), kernels::Spmm{op, {1, 3}, view(2, 2), 0, other(2, 2)}),
               "spmm rows 1..3 of 2");
  EXPECT_DEATH(h.backend().run(h.queue(), kernels::Spmm{op, {0, 2}, view(2, 2), 2, other(2, 2)}),
               "spmm beta 2");
  // One row is asked for, so there is one id.
  const std::vector<GlobalId> ids(2);
  Epilogue dropout;
  dropout.dropout = {{}, dropout_threshold(0.5), ids};
  EXPECT_DEATH(
      h.backend().run(h.queue(), kernels::Spmm{op, {1, 2}, view(2, 2), 0, other(2, 2), dropout}),
      "dropout row_ids: 2 entries found, 1 expected");
  op.row_scale = three;
  EXPECT_DEATH(h.backend().run(h.queue(), kernels::Spmm{op, {0, 2}, view(2, 2), 0, other(2, 2)}),
               "row_scale: 3 entries found, 2 expected");
}

TEST_F(ContractDeathTest, PartsOfAttention) {
  const std::vector<std::int64_t> row_ptr{0, 1, 1};
  const std::vector<std::int32_t> col_idx{1};
  SparseOperator op;
  op.rows = 2;
  op.cols = 2;
  op.row_ptr = row_ptr;
  op.col_idx = col_idx;
  AttentionSpec spec;
  spec.score = AttentionScore::kGatv2;
  spec.heads = 2;
  spec.vector = view(1, 4, 16);
  ConstMatrixView t = view(2, 4, 8);
  RowRange rows{0, 2};
  const auto attend = [&] {
    h.backend().run(h.queue(), kernels::Attend{op, rows, view(2, 4), t, spec, other(2, 4)});
  };
  const auto backward = [&](MatrixView coefficients, MatrixView dvector) {
    h.backend().run(h.queue(),
                    kernels::AttendBackwardTargets{op, rows, view(2, 4), t, view(2, 4), spec,
                                                   other(2, 4), coefficients, dvector});
  };
  attend();
  rows.end = 3;
  EXPECT_DEATH(attend(), "attend rows 0..3 of 2");
  rows.end = 2;
  spec.heads = 3;
  EXPECT_DEATH(attend(), "attention of 3 heads, 4 columns");
  spec.heads = 2;
  t = view(2, 2, 8);
  EXPECT_DEATH(attend(), "attention t: 2 x 2 found, 2 x 4 expected");
  t = view(2, 4, 8);
  spec.source_scores = view(2, 2, 32);
  EXPECT_DEATH(attend(), "attention source_scores of score gatv2");
  spec.source_scores = {};
  spec.edge_scores = view(1, 2, 32);
  EXPECT_DEATH(attend(), "attention edge_scores of score gatv2");
  spec.edge_scores = {};
  const std::vector<float> features{1, 2};
  spec.edges = {std::span(features).first(1), {}, view(2, 4, 240)};
  EXPECT_DEATH(attend(), "attention edges features: 1 entries found, 2 expected");
  spec.edges.features = features;
  spec.edges.of_self = features;
  EXPECT_DEATH(attend(), "attention edges of_self: 2 entries found, 0 expected");
  spec.edges.of_self = {};
  EXPECT_DEATH(backward(view(1, 4, 160), view(1, 4, 200)),
               "attention dedge_weight: 0 x 0 found, 2 x 4 expected");
  spec.edges = {};
  spec.dropout.rate = dropout_threshold(0.5);
  EXPECT_DEATH(attend(), "attention dropout row_ids: 0 entries found, 2 expected");
  spec.dropout = {};
  spec.slope = -1;
  EXPECT_DEATH(attend(), "attention slope -1");
  spec.slope = 0.2;
  spec.with_self = true;
  const MatrixView sums = view(1, 4, 200);
  EXPECT_DEATH(backward(view(1, 4, 160), sums),
               "attention coefficients: 1 x 4 found, 3 x 4 expected");
  EXPECT_DEATH(backward(view(3, 4, 160), {}), "attention dvector: 0 x 0 found, 1 x 4 expected");
  spec.score = AttentionScore::kDot;
  EXPECT_DEATH(attend(), "attention vector of score dot");
  spec.vector = {};
  EXPECT_DEATH(backward(view(3, 4, 160), sums), "attention dvector of 4 columns, none expected");
  EXPECT_DEATH(
      h.backend().run(h.queue(), kernels::HeadDots{view(2, 4), view(1, 4, 16), other(2, 3)}),
      "head_dots: 3 columns of 4");
}

TEST_F(ContractDeathTest, SegmentsOfAdamCoverTheArray) {
  const std::vector<AdamSegment> hole{{0, 1, 0}, {2, 4, 0}};
  const EpochState state;
  AdamSpec spec;
  spec.segments = hole;
  EXPECT_DEATH(h.backend().run(h.queue(), kernels::AdamStep{spec, view(1, 4), view(1, 4, 4),
                                                            view(1, 4, 8), view(1, 4, 12)}),
               "adam_step spec");
  spec.state = &state;
  EXPECT_DEATH(h.backend().run(h.queue(), kernels::AdamStep{spec, view(1, 4), view(1, 4, 4),
                                                            view(1, 4, 8), view(1, 4, 12)}),
               "segment 2..4 after 1");
}

TEST_F(ContractDeathTest, SumsOfBatchNorm) {
  const std::vector<double> two(2, 1);
  std::vector<double> sums(2);
  EXPECT_DEATH(h.backend().run(h.queue(), kernels::BatchNormMoments{view(3, 2), two, sums}),
               "batch_norm_moments sums: 2 entries found, 4 expected");
  std::vector<double> out(2);
  EXPECT_DEATH(h.backend().run(h.queue(),
                               kernels::BatchNormStatistics{two, 0, 0.1, 1e-5, out, out, out, out}),
               "batch_norm_statistics sums: 2 entries found, 4 expected");
  sums.resize(4);
  EXPECT_DEATH(h.backend().run(
                   h.queue(), kernels::BatchNormStatistics{sums, 0, 0.1, 1e-5, out, out, out, out}),
               "batch_norm_statistics: 0 rows");
  EXPECT_DEATH(
      h.backend().run(h.queue(), kernels::BatchNormBackward{view(3, 2), view(3, 2, 8), two, two,
                                                            view(1, 2, 16), sums, 2, other(3, 2)}),
      "batch_norm_backward: 3 of 2 rows");
}

TEST_F(ContractDeathTest, PartsOfASum) {
  MatrixView bf16 = view(2, 2);
  bf16.dtype = DType::kBf16;
  EXPECT_DEATH(h.backend().run(h.queue(), kernels::SumParts{bf16, other(1, 2)}),
               "sum_parts dtype 1");
  EXPECT_DEATH(h.backend().run(h.queue(), kernels::SumParts{view(2, 2), other(2, 2)}),
               "sum_parts: 2 x 2 into 2 x 2");
  EXPECT_DEATH(h.backend().run(h.queue(), kernels::SumParts{view(0, 2), other(1, 2)}),
               "sum_parts: 0 x 2 into 1 x 2");
  EXPECT_DEATH(h.backend().run(h.queue(), kernels::SumParts{view(2, 2), view(1, 2)}),
               "out and parts overlap");
}

TEST_F(ContractDeathTest, PartsOfPacking) {
  const std::vector<LocalId> rows{LocalId{0}};
  const std::vector<std::int64_t> first{0, 1};
  const std::vector<std::int64_t> offset{0};
  const std::vector<std::uint8_t> bits{8};
  const std::vector<GlobalId> ids(2);
  std::vector<float> trace(2);
  std::vector<std::int64_t> bad(1);
  std::array<std::uint32_t, 8> packets{};
  PackList list{rows, first, offset, bits};
  RoundingSpec rounding{{}, ids};
  PackTrace traced{std::span(trace).first(1), std::span(trace).last(1), bad};
  MatrixView x = view(2, 4);
  std::span<std::byte> into = std::as_writable_bytes(std::span(packets));
  const auto pack = [&] {
    h.backend().run(h.queue(), kernels::QuantizeRows{x, list, {}, rounding, into, traced});
  };
  pack();
  x.dtype = DType::kF64;
  EXPECT_DEATH(pack(), "quantize_rows x: dtype 2 found, 0 or 1 expected");
  x = view(2, 4);
  into = into.subspan(2);
  EXPECT_DEATH(pack(), "quantize_rows packets start at an address that is no multiple of 4");
  into = std::as_writable_bytes(std::span(memory_)).subspan(16);
  EXPECT_DEATH(pack(), "quantize_rows packets and the matrix overlap");
  into = std::as_writable_bytes(std::span(packets)).first(4);
  EXPECT_DEATH(pack(), "message of 8 bytes at 0 of 4");
  into = std::as_writable_bytes(std::span(packets));
  list.first = std::span(first).first(1);
  EXPECT_DEATH(pack(), "quantize_rows first: 1 entries found, 2 expected");
  list.first = first;
  traced.variance = trace;
  EXPECT_DEATH(pack(), "quantize_rows variance: 2 entries found, 1 expected");
  traced.variance = std::span(trace).last(1);
  rounding.row_ids = std::span(ids).first(1);
  EXPECT_DEATH(pack(), "quantize_rows row_ids: 1 entries found, 2 expected");
}

TEST_F(ContractDeathTest, PartsOfPackingResiduals) {
  const std::vector<LocalId> rows{LocalId{0}};
  const std::vector<LocalId> sources{LocalId{1}, LocalId{0}};
  const std::vector<std::int64_t> first{0, 1};
  const std::vector<std::int64_t> offset{0};
  const std::vector<std::uint8_t> bits{8};
  const std::vector<GlobalId> ids(2);
  std::vector<float> trace(2);
  std::vector<std::int64_t> bad(1);
  std::array<std::uint32_t, 8> packets{};
  kernels::QuantizeResiduals call{
      .x = view(2, 4),
      .rows = sources,
      .scale = {},
      .kept = other(2, 4),
      .residuals = view(2, 4, 16),
      .list = {rows, first, offset, bits},
      .rounding = {.key = {}, .row_ids = ids, .nearest = true},
      .packets = std::as_writable_bytes(std::span(packets)),
      .trace = {std::span(trace).first(1), std::span(trace).last(1), bad}};
  const auto pack = [&] { h.backend().run(h.queue(), call); };
  pack();
  call.sign = 0;
  EXPECT_DEATH(pack(), "quantize_residuals sign 0");
  call.sign = 1;
  call.rounding.nearest = false;
  EXPECT_DEATH(pack(), "quantize_residuals to random codes");
  call.rounding.nearest = true;
  call.kept = call.residuals;
  EXPECT_DEATH(pack(), "quantize_residuals kept and residuals");
  call.kept = other(1, 4);
  EXPECT_DEATH(pack(), "quantize_residuals kept: 1 x 4 found, 2 x 4 expected");
}

TEST_F(ContractDeathTest, PartsOfUnpacking) {
  const std::vector<LocalId> rows{LocalId{2}};
  const std::vector<std::int64_t> offset{2};
  const std::vector<std::uint8_t> bits{8, 8};
  const std::array<std::uint32_t, 8> packets{};
  UnpackList list{rows, offset, bits};
  const auto unpack = [&](MatrixView y) {
    h.backend().run(h.queue(), kernels::DequantizeRows{std::as_bytes(std::span(packets)), list, y});
  };
  EXPECT_DEATH(unpack(view(3, 4)), "dequantize_rows bits: 2 entries found, 1 expected");
  list.bits = list.bits.first(1);
  EXPECT_DEATH(unpack(view(2, 4)), "row 2 of 2");
  EXPECT_DEATH(unpack(view(3, 4)), "message of 8 bytes at 2 of 32");
  MatrixView f64 = view(3, 4);
  f64.dtype = DType::kF64;
  EXPECT_DEATH(unpack(f64), "dequantize_rows y: dtype 2 found, 0 or 1 expected");
  const auto add_twice = [&] {
    h.backend().run(
        h.queue(), kernels::DequantizeRows{std::as_bytes(std::span(packets)), list, view(3, 4), 2});
  };
  EXPECT_DEATH(add_twice(), "dequantize_rows adds 2 times the messages");
}

// The two halves of a concatenation interleave in memory and yet share nothing.
TEST(Contract, ColumnSlicesOfOneMatrixMayBeInputAndOutput) {
  std::vector<float> memory{1, 2, 0, 0, 3, 4, 0, 0};
  Harness h("reference");
  const ConstMatrixView left{memory.data(), 2, 2, 4};
  const MatrixView right{memory.data() + 2, 2, 2, 4};
  h.backend().run(h.queue(), kernels::Convert{left, right});
  EXPECT_EQ(memory, (std::vector<float>{1, 2, 1, 2, 3, 4, 3, 4}));
}

TEST_F(ContractDeathTest, ColumnSlicesThatShareAColumnMayNot) {
  const ConstMatrixView left{memory_.data(), 2, 2, 4};
  const MatrixView middle{memory_.data() + 1, 2, 2, 4};
  const MatrixView wrapped{memory_.data() + 3, 2, 2, 4};
  EXPECT_DEATH(h.backend().run(h.queue(), kernels::Convert{left, middle}), "overlap");
  EXPECT_DEATH(h.backend().run(h.queue(), kernels::Convert{left, wrapped}), "overlap");
}

}  // namespace

}  // namespace atl
