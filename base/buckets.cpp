#include "base/buckets.hpp"

#include <numeric>

#include "base/error.hpp"

namespace atl {

void Buckets::fill(std::int64_t count, std::span<const std::int32_t> bucket_of) {
  begins.assign(static_cast<std::size_t>(count) + 1, 0);
  for (const std::int32_t bucket : bucket_of) {
    ATOLL_ASSERT(bucket >= 0 && bucket < count, "bucket {} of {}", bucket, count);
    ++begins[bucket + 1];
  }
  std::partial_sum(begins.begin(), begins.end(), begins.begin());
  members.resize(bucket_of.size());
  std::vector<std::int64_t> next(begins.begin(), begins.end() - 1);
  for (std::size_t i = 0; i < bucket_of.size(); ++i) {
    members[next[bucket_of[i]]++] = static_cast<std::int32_t>(i);
  }
}

}  // namespace atl
