#include "engine/training/options.hpp"

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

const char* to_string(LearningRateSchedule schedule) {
  switch (schedule) {
    case LearningRateSchedule::kConstant:
      return "constant";
    case LearningRateSchedule::kCosine:
      return "cosine";
    case LearningRateSchedule::kStep:
      return "step";
  }
  return "";
}

const char* to_string(MultiplyOrder order) {
  return order == MultiplyOrder::kMultiplyFirst ? "multiply-first" : "aggregate-first";
}

}  // namespace atl
