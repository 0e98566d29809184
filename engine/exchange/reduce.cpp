#include "engine/exchange/reduce.hpp"

namespace atl {

namespace {

// `count` values of a row of values from `begin` on.
std::span<std::byte> bytes_of_block(MatrixView values, ReduceBlock block) {
  const auto width = static_cast<std::size_t>(bytes_of(values.dtype));
  return {static_cast<std::byte*>(values.data) + block.begin * width, block.count * width};
}

}  // namespace

void Reducer::sum(std::span<double> values, const char* what, int layer, int epoch) {
  const auto count = static_cast<std::int64_t>(values.size());
  ScopedSpan span(trace_, "all-reduce", {epoch, layer, -1, -1});
  describe(span, what, count, sizeof(double));
  sum_flat({values.data(), 1, count, count, DType::kF64}, {what, "", layer, epoch});
}

void Reducer::sum(MatrixView values, const char* what, int epoch) {
  ATOLL_ASSERT(values.stride == values.cols && values.dtype != DType::kBf16);
  const std::int64_t count = values.rows * values.cols;
  ScopedSpan span(trace_, "all-reduce", {epoch, -1, -1, -1});
  describe(span, what, count, bytes_of(values.dtype));
  sum_flat({values.data, 1, count, count, values.dtype}, {what, "", -1, epoch});
}

void Reducer::sum_host(std::span<std::int64_t> values, const char* what, int epoch) {
  ScopedSpan span(trace_, "all-reduce", {epoch, -1, -1, -1}, "", SpanOf::kHost);
  describe(span, what, std::ssize(values), sizeof(std::int64_t));
  transport_.all_reduce(values, {what, "", -1, epoch});
}

void Reducer::describe(ScopedSpan& span, const char* what, std::int64_t count,
                       std::int64_t value_bytes) const {
  span.set_what(what);
  span.set_bytes(all_reduce_bytes(count, value_bytes, transport_.rank(), transport_.size()));
}

void Reducer::synchronize() {
  if (device_ != nullptr) {
    device_->wait(queue_);
  } else {
    backend_.synchronize(queue_);
  }
}

void Reducer::sum_flat(MatrixView values, const OperationLabel& label) {
  if (transport_.size() == 1 || values.cols == 0) return;
  if (device_ != nullptr) {
    sum_on_device(values, label);
  } else if (backend_.host_accessible()) {
    backend_.synchronize(queue_);
    sum_on_host(values, label);
  } else {
    sum_through_staging(values, label);
  }
}

void Reducer::sum_on_host(MatrixView values, const OperationLabel& label) {
  const auto count = static_cast<std::size_t>(values.cols);
  if (values.dtype == DType::kF64) {
    transport_.all_reduce(std::span(static_cast<double*>(values.data), count), label);
  } else {
    transport_.all_reduce(std::span(static_cast<float*>(values.data), count), label);
  }
}

void Reducer::sum_through_staging(MatrixView values, const OperationLabel& label) {
  const std::int64_t bytes = values.cols * bytes_of(values.dtype);
  if (staging_bytes_ < bytes) {
    staging_ = allocate_staging(backend_, bytes);
    staging_bytes_ = bytes;
  }
  // Waits for the last use of the staging memory too.
  backend_.copy(queue_, staging_.get(), values.data, bytes, CopyKind::kDeviceToHost);
  backend_.synchronize(queue_);
  sum_on_host({staging_.get(), 1, values.cols, values.cols, values.dtype}, label);
  backend_.copy(queue_, values.data, staging_.get(), bytes, CopyKind::kHostToDevice);
}

// Reduce-scatter and all-gather in the blocks of Transport::all_reduce.
void Reducer::sum_on_device(MatrixView values, const OperationLabel& label) {
  const auto size = static_cast<std::size_t>(transport_.size());
  const auto rank = static_cast<std::size_t>(transport_.rank());
  const auto block_of = [&](std::size_t r) {
    return reduce_block(static_cast<std::size_t>(values.cols), static_cast<int>(r),
                        transport_.size());
  };
  const std::span<std::byte> mine = bytes_of_block(values, block_of(rank));
  const std::size_t own = block_of(rank).count;
  const auto part_bytes = static_cast<std::int64_t>(mine.size());
  if (parts_bytes_ < part_bytes * transport_.size()) {
    parts_bytes_ = part_bytes * transport_.size();
    parts_ = allocate_device(backend_, parts_bytes_);
  }
  const auto columns = static_cast<std::int64_t>(own);
  const MatrixView parts{parts_.get(), transport_.size(), columns, columns, values.dtype};
  const auto part_of = [&](std::size_t r) { return bytes_of_block(parts, {r * own, own}); };
  std::vector<std::span<const std::byte>> sends(size);
  std::vector<std::span<std::byte>> receives(size);
  std::vector<std::span<const std::byte>> own_sums(size);
  std::vector<std::span<std::byte>> other_sums(size);
  for (std::size_t r = 0; r < size; ++r) {
    if (r == rank) continue;
    sends[r] = other_sums[r] = bytes_of_block(values, block_of(r));
    receives[r] = part_of(r);
    own_sums[r] = mine;
  }
  Queue& transfers = device_->queue();
  backend_.wait_for(transfers, queue_);
  if (own > 0) {
    backend_.copy(transfers, part_of(rank).data(), mine.data(), part_bytes,
                  CopyKind::kDeviceToDevice);
  }
  device_->all_to_all_v(sends, receives, label);
  if (own > 0) {
    backend_.sum_parts(transfers, parts, {mine.data(), 1, columns, columns, values.dtype});
  }
  device_->all_to_all_v(own_sums, other_sums, label);
  backend_.wait_for(queue_, transfers);
}

}  // namespace atl
