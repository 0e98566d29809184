#include "kernels/cuda/prepared_spmm.hpp"

#include "base/error.hpp"

namespace atl::cuda {

PreparedRange::PreparedRange(Backend& backend, Queue& queue, std::span<const std::int64_t> row_ptr,
                             RowRange range, Lifetime lifetime)
    : lifetime_(lifetime) {
  RowBins bins = bin_rows(row_ptr, range);
  host_split_ = std::move(bins.split);
  rows_ = upload(backend, queue, bins.rows);
  pieces_ = upload(backend, queue, bins.pieces);
  split_ = upload(backend, queue, host_split_);
  nnz_ =
      row_ptr[static_cast<std::size_t>(range.end)] - row_ptr[static_cast<std::size_t>(range.begin)];
  work_.range = range;
  work_.rows = static_cast<const std::int32_t*>(rows_.get());
  work_.long_rows = bins.long_rows;
  work_.row_count = bins.natural ? range.size() : static_cast<std::int64_t>(bins.rows.size());
  work_.pieces = static_cast<const RowPiece*>(pieces_.get());
  work_.split = static_cast<const SplitRow*>(split_.get());
  work_.host_split = host_split_;
}

PreparedSpmm::PreparedSpmm(Backend& backend, Queue& queue, std::span<const std::int64_t> row_ptr,
                           std::span<const RowRange> ranges, Lifetime lifetime) {
  for (const RowRange range : ranges) {
    ATOLL_ASSERT(0 <= range.begin && range.begin <= range.end &&
                     range.end < static_cast<std::int64_t>(row_ptr.size()),
                 "rows {}..{} of {} to prepare", range.begin, range.end, row_ptr.size());
    ranges_.push_back(std::make_unique<PreparedRange>(backend, queue, row_ptr, range, lifetime));
  }
}

PreparedRange* PreparedSpmm::find(RowRange range) const {
  for (const auto& prepared : ranges_) {
    if (prepared->range().begin == range.begin && prepared->range().end == range.end) {
      return prepared.get();
    }
  }
  return nullptr;
}

SpmmWork work_of(const PreparedSparse* prepared, RowRange range) {
  if (prepared == nullptr) return undivided(range);
  const PreparedRange* const found = static_cast<const PreparedSpmm*>(prepared)->find(range);
  return found != nullptr ? found->work() : undivided(range);
}

}  // namespace atl::cuda
