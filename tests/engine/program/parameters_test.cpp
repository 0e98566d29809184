#include "engine/program/parameters.hpp"

#include <gtest/gtest.h>

#include "kernels/bf16.hpp"
#include "kernels/registry.hpp"

namespace atl {
namespace {

// Two layers of GraphSAGE in bf16, 13 columns behind 16.
void declare_layers(ParameterStore& parameters) {
  parameters.declare({"0.weight", 0, 5, 16, Initialisation::kGlorotUniform});
  parameters.declare({"0.root", 0, 5, 16, Initialisation::kGlorotUniform});
  parameters.declare({"0.bias", 0, 1, 16, Initialisation::kOnes});
  parameters.declare({"1.weight", 1, 16, 13, Initialisation::kGlorotUniform});
  parameters.declare({"1.root", 1, 16, 13, Initialisation::kGlorotUniform});
  parameters.declare({"1.bias", 1, 1, 13, Initialisation::kOnes});
}

void expect_rounded(ParameterStore& parameters, bool padded) {
  for (std::size_t p = 0; p < parameters.list().size(); ++p) {
    const Parameter& parameter = parameters.list()[p];
    if (!parameter.is_weight) continue;
    const MatrixView value = parameters.value(static_cast<int>(p));
    const ConstMatrixView operand = parameters.operand(static_cast<int>(p));
    EXPECT_EQ(operand.dtype, DType::kBf16);
    EXPECT_EQ(operand.stride, padded ? padded_columns(value.cols) : value.cols);
    for (std::int64_t i = 0; i < value.rows; ++i) {
      for (std::int64_t j = 0; j < value.cols; ++j) {
        ASSERT_EQ(operand.row<Bf16>(i)[j].bits, to_bf16(value.row<float>(i)[j]).bits)
            << parameter.name << ", " << i << ", " << j;
      }
    }
  }
}

TEST(Parameters, EachWeightIsConvertedOnce) {
  for (const bool padded : {false, true}) {
    const auto backend = make_backend("cpu", {1, -1});
    const auto queue = backend->make_queue();
    ParameterStore parameters(DType::kBf16, padded);
    declare_layers(parameters);
    parameters.allocate(*backend, *queue, 1);
    expect_rounded(parameters, padded);
    for (std::int64_t k = 0; k < parameters.size(); ++k) {
      parameters.values().row<float>(0)[k] = static_cast<float>(k) / 7;
    }
    TraceRecorder trace;
    backend->profile_into(&trace, queue.get());
    parameters.refresh_operands(*backend, *queue);
    backend->profile_into(nullptr, nullptr);
    expect_rounded(parameters, padded);
    // Padded: the first layer as a whole, and the two weights behind it. Four bytes of each element
    // are read and two written.
    ASSERT_EQ(trace.spans().size(), padded ? 3U : 1U);
    double bytes = 0;
    for (const TraceSpan& span : trace.spans()) bytes += span.work.bytes;
    const std::int64_t first_layer = 80 + 80 + 16;
    EXPECT_EQ(bytes,
              6 * static_cast<double>(padded ? first_layer + 2 * 16 * 13 : parameters.size()));
  }
}

TEST(Parameters, BytesCountCopiesForProducts) {
  const std::int64_t values = 80 + 80 + 16 + 208 + 208 + 16;
  const auto bytes = [](DType dtype, bool padded) {
    ParameterStore parameters(dtype, padded);
    declare_layers(parameters);
    return parameters.bytes();
  };
  EXPECT_EQ(bytes(DType::kF32, true), 4 * 4 * values);
  EXPECT_EQ(bytes(DType::kBf16, false), (4 * 4 + 2) * values);
  EXPECT_EQ(bytes(DType::kBf16, true), (4 * 4 + 2) * values + 2 * 2 * 16 * 3);
}

}  // namespace
}  // namespace atl
