#include "kernels/views.hpp"

namespace atl {

namespace {
constexpr struct {
  DType dtype;
  const char* name;
} kDTypes[] = {{DType::kF32, "f32"}, {DType::kBf16, "bf16"}, {DType::kF64, "f64"}};
}  // namespace

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
