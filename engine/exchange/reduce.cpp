#include "engine/exchange/reduce.hpp"

namespace atl {

void Reducer::sum(std::span<double> values, const char* what, int layer, int epoch) {
  const ScopedSpan span(trace_, "all-reduce", {epoch, layer, -1, -1});
  transport_.all_reduce(values, {what, "", layer, epoch});
}

void Reducer::sum(std::span<std::int64_t> values, const char* what, int layer, int epoch) {
  const ScopedSpan span(trace_, "all-reduce", {epoch, layer, -1, -1});
  transport_.all_reduce(values, {what, "", layer, epoch});
}

void Reducer::sum(MatrixView values, const char* what, int epoch) {
  ATOLL_ASSERT(backend_.host_accessible() && values.stride == values.cols);
  backend_.synchronize(queue_);
  const ScopedSpan span(trace_, "all-reduce", {epoch, -1, -1, -1});
  const auto count = static_cast<std::size_t>(values.rows * values.cols);
  const OperationLabel label{what, "", -1, epoch};
  if (values.dtype == DType::kF64) {
    transport_.all_reduce(std::span(static_cast<double*>(values.data), count), label);
  } else {
    ATOLL_ASSERT(values.dtype == DType::kF32);
    transport_.all_reduce(std::span(static_cast<float*>(values.data), count), label);
  }
}

}  // namespace atl
