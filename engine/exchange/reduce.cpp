#include "engine/exchange/reduce.hpp"

namespace atl {

namespace {

std::span<std::byte> bytes_of_range(MatrixView values, std::int64_t begin, std::int64_t end) {
  const std::int64_t width = bytes_of(values.dtype);
  return {static_cast<std::byte*>(values.data) + begin * width,
          static_cast<std::size_t>((end - begin) * width)};
}

}  // namespace

void Reducer::sum(std::span<double> values, const char* what, int layer, int epoch) {
  const auto count = static_cast<std::int64_t>(values.size());
  const ScopedSpan span(trace_, "all-reduce", {epoch, layer, -1, -1});
  sum_flat({values.data(), 1, count, count, DType::kF64}, {what, "", layer, epoch});
}

void Reducer::sum(MatrixView values, const char* what, int epoch) {
  ATOLL_ASSERT(values.stride == values.cols && values.dtype != DType::kBf16);
  const ScopedSpan span(trace_, "all-reduce", {epoch, -1, -1, -1});
  const std::int64_t count = values.rows * values.cols;
  sum_flat({values.data, 1, count, count, values.dtype}, {what, "", -1, epoch});
}

void Reducer::sum_host(std::span<std::int64_t> values, const char* what, int epoch) {
  const ScopedSpan span(trace_, "all-reduce", {epoch, -1, -1, -1}, "", SpanOf::kHost);
  transport_.all_reduce(values, {what, "", -1, epoch});
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
  const int size = transport_.size();
  const auto begin_of = [&](int r) { return values.cols * r / size; };
  const int rank = transport_.rank();
  const std::int64_t own = begin_of(rank + 1) - begin_of(rank);
  const std::int64_t width = bytes_of(values.dtype);
  if (parts_bytes_ < own * size * width) {
    parts_bytes_ = own * size * width;
    parts_ = allocate_device(backend_, parts_bytes_);
  }
  const MatrixView parts{parts_.get(), size, own, own, values.dtype};
  std::vector<std::span<const std::byte>> sends(static_cast<std::size_t>(size));
  std::vector<std::span<std::byte>> receives(static_cast<std::size_t>(size));
  std::vector<std::span<const std::byte>> own_sums(static_cast<std::size_t>(size));
  std::vector<std::span<std::byte>> other_sums(static_cast<std::size_t>(size));
  const std::span<std::byte> mine = bytes_of_range(values, begin_of(rank), begin_of(rank + 1));
  for (int r = 0; r < size; ++r) {
    if (r == rank) continue;
    const auto block = bytes_of_range(values, begin_of(r), begin_of(r + 1));
    sends[static_cast<std::size_t>(r)] = block;
    receives[static_cast<std::size_t>(r)] = bytes_of_range(parts, r * own, (r + 1) * own);
    own_sums[static_cast<std::size_t>(r)] = mine;
    other_sums[static_cast<std::size_t>(r)] = block;
  }
  Queue& transfers = device_->queue();
  backend_.wait_for(transfers, queue_);
  if (own > 0) {
    backend_.copy(transfers, bytes_of_range(parts, rank * own, (rank + 1) * own).data(),
                  mine.data(), own * width, CopyKind::kDeviceToDevice);
  }
  device_->all_to_all_v(sends, receives, label);
  if (own > 0) backend_.sum_parts(transfers, parts, {mine.data(), 1, own, own, values.dtype});
  device_->all_to_all_v(own_sums, other_sums, label);
  backend_.wait_for(queue_, transfers);
}

}  // namespace atl
