// Fetching rows into the caches before a loop needs them, where it takes them in no order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/ids.hpp"
#include "kernels/cpu/simd.hpp"
#include "kernels/views.hpp"

namespace atl {

// Rows are fetched into the second cache this long before they are needed, and into the first
// shortly before: a core waits for more lines of the second than of the first.
inline constexpr std::int64_t kBytesAheadL2 = 24 << 10;
inline constexpr std::int64_t kBytesAheadL1 = 4 << 10;
inline constexpr std::int64_t kMostPrefetched =
    4 << 10;                               // of one row: what follows, the machine foresees
inline constexpr std::int64_t kLine = 64;  // bytes

// kCache: 2 or 3, the second or the first cache.
template <int kCache>
ATOLL_INLINE inline void prefetch(const void* data, std::int64_t bytes) {
  const auto* from = static_cast<const char*>(data);
  for (std::int64_t b = 0; b < std::min(bytes, kMostPrefetched); b += kLine) {
    __builtin_prefetch(from + b, 0, kCache);
  }
}

// How many rows of `row_bytes` are `bytes_ahead`.
inline std::int64_t rows_ahead(std::int64_t row_bytes, std::int64_t bytes_ahead) {
  return std::max<std::int64_t>(1, bytes_ahead / std::max<std::int64_t>(1, row_bytes));
}

// How many edges ahead rows of neighbours are fetched into the second cache and into the first.
struct Prefetching {
  std::int64_t far;
  std::int64_t near;
};
inline Prefetching prefetching(std::int64_t row_bytes) {
  constexpr std::int64_t kMostNearEdges = 8;
  return {rows_ahead(row_bytes, kBytesAheadL2),
          std::min(rows_ahead(row_bytes, kBytesAheadL1), kMostNearEdges)};
}

// Fetches rows[k + some], where a loop over k gathers rows of x.
template <typename T>
class Prefetcher {
 public:
  Prefetcher(ConstMatrixView x, std::span<const LocalId> rows)
      : x_(x),
        rows_(rows),
        bytes_(x.cols * static_cast<std::int64_t>(sizeof(T))),
        far_(rows_ahead(bytes_, kBytesAheadL2)),
        near_(rows_ahead(bytes_, kBytesAheadL1)) {}
  ATOLL_INLINE void before(std::int64_t k) const {
    const auto count = static_cast<std::int64_t>(rows_.size());
    if (k + far_ < count) prefetch<2>(x_.row<T>(to_index(rows_[k + far_])), bytes_);
    if (k + near_ < count) prefetch<3>(x_.row<T>(to_index(rows_[k + near_])), bytes_);
  }

 private:
  ConstMatrixView x_;
  std::span<const LocalId> rows_;
  std::int64_t bytes_;
  std::int64_t far_;
  std::int64_t near_;
};

// Rows that are fetched into the second cache in equal steps.
class RowsAhead {
 public:
  RowsAhead(ConstMatrixView rows, std::int64_t steps)
      : next_(static_cast<const char*>(rows.data)),
        end_(next_ + rows.rows * rows.stride * bytes_of(rows.dtype)),
        step_(((end_ - next_) / steps / kLine + 1) * kLine) {}
  ATOLL_INLINE void fetch() {
    for (const char* const end = std::min(next_ + step_, end_); next_ < end; next_ += kLine) {
      __builtin_prefetch(next_, 0, 2);
    }
  }

 private:
  const char* next_;
  const char* end_;
  std::int64_t step_;
};

}  // namespace atl
