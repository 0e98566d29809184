// Which ranks hold which part of a cut. In most runs part p is on rank p. Several ranks may hold
// one part and share the work on it, by rows or by columns: each has a role among them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/error.hpp"
#include "kernels/views.hpp"

namespace atl {

struct ColumnRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

// The columns, of so many, that each of `roles` ranks has where they share a matrix by columns:
// whole units, by default of padding, so that all slices together are as wide as the matrix. With
// fewer units than ranks, some ranks have none.
inline ColumnRange column_slice(std::int64_t columns, int role, int roles,
                                std::int64_t unit = kColumnPadding) {
  const std::int64_t units = (columns + unit - 1) / unit;
  // Rounded up: where they are not alike, the first ranks have more.
  const auto begin_of = [&](int of) { return unit * ((units * of + roles - 1) / roles); };
  const std::int64_t begin = begin_of(role);
  const std::int64_t end = begin_of(role + 1);
  return {begin, std::max<std::int64_t>(std::min(end, columns) - begin, 0)};
}

class RankMap {
 public:
  // Ranks p k ... p k + k - 1 hold part p, k = ranks_per_part.
  explicit RankMap(int parts, int ranks_per_part = 1) : parts_(parts), each_(ranks_per_part) {
    ATOLL_ASSERT(parts >= 1 && ranks_per_part >= 1, "{} parts on {} ranks each", parts,
                 ranks_per_part);
  }

  int parts() const { return parts_; }
  int ranks() const { return parts_ * each_; }
  int ranks_per_part() const { return each_; }
  int part_of(int rank) const { return checked(rank) / each_; }
  int role_of(int rank) const { return checked(rank) % each_; }  // among those of its part
  int rank_of(int part, int role = 0) const { return part * each_ + role; }
  // The share of a range of its part's rows that a rank works on; those of all roles follow one
  // another.
  RowRange share(int rank, RowRange rows) const {
    const std::int64_t role = role_of(rank);
    return {rows.begin + rows.size() * role / each_, rows.begin + rows.size() * (role + 1) / each_};
  }

 private:
  int checked(int rank) const {
    ATOLL_ASSERT(rank >= 0 && rank < ranks(), "rank {} of {}", rank, ranks());
    return rank;
  }

  int parts_;
  int each_;
};

// Ranks of each place (a host, an island), by their places, if all have as many and theirs follow
// one another; else 0.
int ranks_of_each(std::span<const std::int64_t> places);

}  // namespace atl
