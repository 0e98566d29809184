#include "engine/exchange/reduce.hpp"

#include <algorithm>

#include "engine/comm/rank_values.hpp"

namespace atl {

namespace {

// `count` values of a row of values from `begin` on.
std::span<std::byte> bytes_of_block(MatrixView values, ReduceBlock block) {
  const auto element = static_cast<std::size_t>(bytes_of(values.dtype));
  return {static_cast<std::byte*>(values.data) + block.begin * element, block.count * element};
}

}  // namespace

void Reducer::sum(std::span<double> values, const char* what, int layer, int epoch) {
  const auto count = static_cast<std::int64_t>(values.size());
  ScopedSpan span(trace_, "all-reduce", {epoch, layer, -1, -1});
  describe(span, what, count, sizeof(double));
  sum_flat({values.data(), 1, count, count, DType::kF64}, {}, {what, "", layer, epoch});
}

void Reducer::sum(MatrixView values, const char* what, int epoch) {
  ATOLL_ASSERT((values.rows == 1 || values.stride == values.cols) && values.dtype != DType::kBf16);
  const std::int64_t count = values.rows * values.cols;
  ScopedSpan span(trace_, "all-reduce", {epoch, -1, -1, -1});
  describe(span, what, count, bytes_of(values.dtype), route_);
  sum_flat({values.data, 1, count, count, values.dtype}, route_, {what, "", -1, epoch});
}

bool Reducer::prepare_sums(std::size_t count, DType dtype) {
  if (transport_.size() == 1 || count == 0) return false;
  // Ranks of one job may have backends of several kinds.
  const bool possible = device_ == nullptr && backend_.host_accessible() && dtype == DType::kF32;
  const auto impossible =
      sum_over_ranks<std::int64_t>(transport_, possible ? 0 : 1, {"sums beside computing"});
  if (impossible > 0) return false;
  while (own_transports_.size() < count) {
    own_transports_.push_back(transport_.split(0, fmt::format("sum {}", own_transports_.size())));
  }
  return true;
}

void Reducer::begin_sum(MatrixView part, const char* what, int epoch) {
  const std::size_t number = begun_.size();
  ATOLL_ASSERT(part.rows == 1 && part.dtype == DType::kF32 && number < own_transports_.size());
  backend_.synchronize(queue_);
  const auto count = static_cast<std::size_t>(part.cols);
  begun_.push_back(std::make_unique<PendingSum>(
      *own_transports_[number], sum_steps(route_, transport_.rank(), transport_.size(), count),
      std::span(static_cast<float*>(part.data), count), OperationLabel{what, "", -1, epoch}));
}

void Reducer::advance_sums() {
  for (const std::unique_ptr<PendingSum>& sum : begun_) sum->advance();
}

void Reducer::finish_sums(MatrixView rest, const char* what, int epoch) {
  if (begun_.empty()) return sum(rest, what, epoch);
  ATOLL_ASSERT(rest.rows == 1 && rest.dtype == DType::kF32);
  ScopedSpan span(trace_, "all-reduce", {epoch, -1, -1, -1});
  std::size_t sent = 0;
  for (const std::unique_ptr<PendingSum>& sum : begun_) sent += sum->sent_values();
  describe(span, what, rest.cols, bytes_of(rest.dtype), route_,
           static_cast<std::int64_t>(sent) * bytes_of(rest.dtype));
  advance_sums();
  sum_flat({rest.data, 1, rest.cols, rest.cols, rest.dtype}, route_, {what, "", -1, epoch});
  for (const std::unique_ptr<PendingSum>& sum : begun_) sum->finish();
  begun_.clear();
}

void Reducer::sum_host(std::span<std::int64_t> values, const char* what, int epoch) {
  ScopedSpan span(trace_, "all-reduce", {epoch, -1, -1, -1}, "", SpanOf::kHost);
  describe(span, what, std::ssize(values), sizeof(std::int64_t));
  transport_.all_reduce(values, {what, "", -1, epoch});
}

void Reducer::describe(ScopedSpan& span, const char* what, std::int64_t count,
                       std::int64_t value_bytes, const SumRoute& route,
                       std::int64_t begun_bytes) const {
  span.set_what(what);
  if (transport_.size() == 1) return span.set_bytes(0);
  std::size_t values = 0;
  for (const SumStep& step :
       sum_steps(route, transport_.rank(), transport_.size(), static_cast<std::size_t>(count))) {
    values += step.sent_values();
  }
  span.set_bytes(static_cast<std::int64_t>(values) * value_bytes + begun_bytes);
}

void Reducer::synchronize() {
  if (device_ != nullptr) {
    device_->wait(queue_);
  } else {
    backend_.synchronize(queue_);
  }
}

void Reducer::sum_flat(MatrixView values, const SumRoute& route, const OperationLabel& label) {
  if (transport_.size() == 1 || values.cols == 0) return;
  if (device_ != nullptr) {
    sum_on_device(values, route, label);
  } else if (backend_.host_accessible()) {
    backend_.synchronize(queue_);
    sum_on_host(values, route, label);
  } else {
    sum_through_staging(values, route, label);
  }
}

void Reducer::sum_on_host(MatrixView values, const SumRoute& route, const OperationLabel& label) {
  const auto count = static_cast<std::size_t>(values.cols);
  const std::vector<SumStep> steps = sum_steps(route, transport_.rank(), transport_.size(), count);
  if (values.dtype == DType::kF64) {
    sum_by_steps(transport_, steps, std::span(static_cast<double*>(values.data), count), label);
  } else {
    sum_by_steps(transport_, steps, std::span(static_cast<float*>(values.data), count), label);
  }
}

void Reducer::sum_through_staging(MatrixView values, const SumRoute& route,
                                  const OperationLabel& label) {
  const std::int64_t bytes = values.cols * bytes_of(values.dtype);
  staging_.reserve(backend_, bytes);
  // Waits for the last use of the staging memory too.
  backend_.copy(queue_, staging_.get(), values.data, bytes, CopyKind::kDeviceToHost);
  backend_.synchronize(queue_);
  sum_on_host({staging_.get(), 1, values.cols, values.cols, values.dtype}, route, label);
  backend_.copy(queue_, values.data, staging_.get(), bytes, CopyKind::kHostToDevice);
}

void Reducer::sum_on_device(MatrixView values, const SumRoute& route, const OperationLabel& label) {
  const std::vector<SumStep> steps =
      sum_steps(route, transport_.rank(), transport_.size(), static_cast<std::size_t>(values.cols));
  std::int64_t parts_bytes = 0;
  for (const SumStep& step : steps) {
    parts_bytes = std::max(parts_bytes,
                           static_cast<std::int64_t>(step.own_block().count * step.members.size()) *
                               bytes_of(values.dtype));
  }
  parts_.reserve(backend_, parts_bytes);
  backend_.wait_for(device_->queue(), queue_);
  for (const SumStep& step : steps) run_on_device(step, values, label);
  backend_.wait_for(queue_, device_->queue());
}

void Reducer::run_on_device(const SumStep& step, MatrixView values, const OperationLabel& label) {
  const bool adds = step.kind == SumStep::Kind::kAdd;
  const std::span<std::byte> own = bytes_of_block(values, step.own_block());
  const auto columns = static_cast<std::int64_t>(step.own_block().count);
  const MatrixView parts{parts_.get(), std::ssize(step.members), columns, columns, values.dtype};
  const auto part_of = [&](std::size_t member) {
    return bytes_of_block(parts, {member * step.own_block().count, step.own_block().count});
  };
  std::vector<std::span<const std::byte>> sends(static_cast<std::size_t>(transport_.size()));
  std::vector<std::span<std::byte>> receives(sends.size());
  for (std::size_t m = 0; m < step.members.size(); ++m) {
    if (m == step.own) continue;
    const auto rank = static_cast<std::size_t>(step.members[m]);
    const std::span<std::byte> block = bytes_of_block(values, step.blocks[m]);
    sends[rank] = adds ? block : own;
    receives[rank] = adds ? part_of(m) : block;
  }
  Queue& transfers = device_->queue();
  if (adds && columns > 0) {
    backend_.copy(transfers, part_of(step.own).data(), own.data(), std::ssize(own),
                  CopyKind::kDeviceToDevice);
  }
  device_->all_to_all_v(sends, receives, label);
  if (adds && columns > 0) {
    backend_.run(transfers,
                 kernels::SumParts{parts, {own.data(), 1, columns, columns, values.dtype}});
  }
}

}  // namespace atl
