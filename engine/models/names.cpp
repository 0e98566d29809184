#include "engine/models/model.hpp"

namespace atl {

const char* to_string(Norm norm) {
  switch (norm) {
    case Norm::kNone:
      return "none";
    case Norm::kLayer:
      return "layer";
    case Norm::kBatch:
      return "batch";
  }
  return "";
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
