#include "engine/models/model.hpp"

namespace atl {

namespace {

template <typename Value>
std::optional<Value> find_named(std::initializer_list<Value> values, const std::string& name) {
  for (const Value value : values) {
    if (name == to_string(value)) return value;
  }
  return std::nullopt;
}

}  // namespace

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

std::optional<Norm> norm_named(const std::string& name) {
  return find_named({Norm::kNone, Norm::kLayer, Norm::kBatch}, name);
}

std::optional<MultiplyOrder> multiply_order_named(const std::string& name) {
  return find_named({MultiplyOrder::kMultiplyFirst, MultiplyOrder::kAggregateFirst}, name);
}

}  // namespace atl
