#include "kernels/views.hpp"

#include "kernels/attention.hpp"
#include "kernels/pool.hpp"

namespace atl {

namespace {
constexpr struct {
  DType dtype;
  const char* name;
} kDTypes[] = {{DType::kF32, "f32"}, {DType::kBf16, "bf16"}, {DType::kF64, "f64"}};
}  // namespace

const char* to_string(ActivationFunction function) {
  switch (function) {
    case ActivationFunction::kNone:
      return "none";
    case ActivationFunction::kRelu:
      return "relu";
    case ActivationFunction::kLeakyRelu:
      return "leaky-relu";
    case ActivationFunction::kElu:
      return "elu";
    case ActivationFunction::kGelu:
      return "gelu";
  }
  ATOLL_ASSERT(false, "activation function {}", static_cast<int>(function));
}

const char* to_string(PoolKind kind) {
  switch (kind) {
    case PoolKind::kMaximum:
      return "maximum";
    case PoolKind::kSoftmax:
      return "softmax";
    case PoolKind::kPowerMean:
      return "power mean";
  }
  return "";
}

const char* to_string(AttentionScore score) {
  switch (score) {
    case AttentionScore::kAdditive:
      return "additive";
    case AttentionScore::kGatv2:
      return "gatv2";
    case AttentionScore::kDot:
      return "dot";
  }
  ATOLL_ASSERT(false, "attention score {}", static_cast<int>(score));
}

const char* to_string(DType dtype) {
  for (const auto& entry : kDTypes) {
    if (entry.dtype == dtype) return entry.name;
  }
  ATOLL_ASSERT(false, "dtype {}", static_cast<int>(dtype));
}

std::optional<DType> dtype_named(std::string_view name) {
  for (const auto& entry : kDTypes) {
    if (name == entry.name) return entry.dtype;
  }
  return std::nullopt;
}

}  // namespace atl
