#include <array>

#include "engine/models/model.hpp"

namespace atl {

const char* to_string(InputLayerChoice choice) {
  return std::array{"auto", "none", "linear", "activated", "typed"}.at(
      static_cast<std::size_t>(choice));
}

const char* to_string(Decoder decoder) {
  return std::array{"dot", "mlp"}.at(static_cast<std::size_t>(decoder));
}

const char* to_string(HeadChoice choice) {
  return std::array{"auto", "none", "linear"}.at(static_cast<std::size_t>(choice));
}

const char* to_string(MultiplyOrder order) {
  return order == MultiplyOrder::kMultiplyFirst ? "multiply-first" : "aggregate-first";
}

std::optional<MultiplyOrder> multiply_order_named(const std::string& name) {
  for (const auto order : {MultiplyOrder::kMultiplyFirst, MultiplyOrder::kAggregateFirst}) {
    if (name == to_string(order)) return order;
  }
  return std::nullopt;
}

}  // namespace atl
