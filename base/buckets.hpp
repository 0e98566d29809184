// Numbered things sorted into buckets by counting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace atl {

// Members of buckets, bucket by bucket, ascending in each.
struct Buckets {
  std::vector<std::int32_t> members;
  std::vector<std::int64_t> begins{0};  // where each bucket begins, and the last one ends

  // bucket_of: for each member, 0 to count - 1. Memory is used again.
  void fill(std::int64_t count, std::span<const std::int32_t> bucket_of);
  std::span<const std::int32_t> of(std::int64_t bucket) const {
    return std::span(members).subspan(
        static_cast<std::size_t>(begins[bucket]),
        static_cast<std::size_t>(begins[bucket + 1] - begins[bucket]));
  }
};

}  // namespace atl
