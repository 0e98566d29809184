// Every combination of an epilogue's parts, alone and fused into products, against the oracle.
#include "tests/kernels/operations.hpp"

namespace atl {

namespace {

using Run = std::function<Outputs(Harness&, std::int64_t, std::int64_t, EpilogueParts)>;

struct Fused {
  std::string name;
  Run run;
  double tolerance;
};
void PrintTo(const Fused& fused, std::ostream* out) { *out << fused.name; }

std::vector<Fused> fused_operations() {
  const auto spmm = [](SpmmCase which) -> Run {
    return [which](Harness& h, std::int64_t rows, std::int64_t cols, EpilogueParts parts) mutable {
      which.epilogue = parts;
      return run_spmm(h, rows, cols, which);
    };
  };
  const auto gemm = [](GemmCase which) -> Run {
    return [which](Harness& h, std::int64_t rows, std::int64_t cols, EpilogueParts parts) mutable {
      which.epilogue = parts;
      return run_gemm(h, rows, cols, which);
    };
  };
  const auto apply = [](bool in_place) -> Run {
    return [in_place](Harness& h, std::int64_t rows, std::int64_t cols, EpilogueParts parts) {
      return run_apply_epilogue(h, rows, cols, parts, in_place);
    };
  };
  constexpr Transpose kYes = Transpose::kYes;
  return {{"apply", apply(false), 1e-6},
          {"apply_in_place", apply(true), 1e-6},
          {"spmm", spmm({}), 5e-6},
          {"spmm_prepared", spmm({.prepared = true}), 5e-6},
          {"spmm_scaled_added", spmm({.scales = true, .self_weight = true, .beta = 1}), 5e-6},
          {"spmm_scaled_added_prepared",
           spmm({.scales = true, .self_weight = true, .prepared = true, .beta = 1}), 5e-6},
          {"spmm_part_added", spmm({.values = true, .part = true, .beta = 1}), 5e-6},
          {"gemm", gemm({}), 5e-6},
          {"gemm_added", gemm({.transpose_b = kYes, .beta = 1}), 5e-6},
          {"gemm_wide", gemm({.wide = true}), 5e-6},
          {"gemm_transposed", gemm({.transpose_a = kYes}), 5e-6},
          {"gemm_transposed_added", gemm({.transpose_a = kYes, .beta = 1}), 5e-6}};
}

class EpilogueTest : public ::testing::TestWithParam<std::tuple<std::string, DType, Fused>> {
 protected:
  void SetUp() override { require_backend(std::get<0>(GetParam())); }
};

TEST_P(EpilogueTest, EqualsReference) {
  const auto& [backend, dtype, fused] = GetParam();
  Harness tested(backend, 2, dtype);
  Harness oracle("reference", 2, dtype);
  struct Size {
    std::int64_t rows, cols, padding;
  };
  const auto sizes = small_tests() ? std::vector<Size>{{5, 8, 0}}
                                   : std::vector<Size>{{33, 100, 3}, {65, 8, 0}, {33, 47, 1}};
  for (const auto& [rows, cols, padding] : sizes) {
    for (const EpilogueParts parts : all_epilogues()) {
      for (Harness* h : {&tested, &oracle}) h->set_padding(padding);
      const Outputs found = fused.run(tested, rows, cols, parts);
      const Outputs expected = fused.run(oracle, rows, cols, parts);
      expect_oracle(found, expected, fused.tolerance, Bf16Case::kOneStep,
                    label(parts) + ", " + std::to_string(cols) + " columns");
      tested.finish();
      oracle.finish();
      if (HasFatalFailure() || HasNonfatalFailure()) return;
    }
  }
}

std::string epilogue_test_name(const ::testing::TestParamInfo<EpilogueTest::ParamType>& test) {
  const auto& [backend, dtype, fused] = test.param;
  return backend + (dtype == DType::kBf16 ? "_bf16_" : "_f32_") + fused.name;
}
INSTANTIATE_TEST_SUITE_P(Backends, EpilogueTest,
                         ::testing::Combine(::testing::Values("cpu", "cuda"),
                                            ::testing::Values(DType::kF32, DType::kBf16),
                                            ::testing::ValuesIn(fused_operations())),
                         epilogue_test_name);

}  // namespace

}  // namespace atl
