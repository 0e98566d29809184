// The ranks that hold one part of the graph together, as one of them sees them (docs/groups.md).
// For what works row by row each has a share of the part's rows; for what reads rows of neighbours
// each has all rows of the part, but a slice of their columns.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "engine/comm/device_transport.hpp"
#include "engine/exchange/rank_map.hpp"

namespace atl {

class PartGroup {
 public:
  // `job` and its device transport, which may be null, must outlive it; `job` has as many ranks as
  // the map. Collective.
  PartGroup(Transport& job, const RankMap& map, DeviceTransport* device);

  int part() const { return map_.part_of(rank_); }
  int parts() const { return map_.parts(); }
  int role() const { return map_.role_of(rank_); }
  int roles() const { return map_.ranks_per_part(); }

  // Among the ranks of this part, by role.
  Transport& members() const { return *members_; }
  // Among the ranks that have this slice of columns, by part: messages between parts.
  Transport& slice() const { return *slice_; }
  // The data planes of both; null: there is none.
  DeviceTransport* members_device() const { return members_device_.get(); }
  DeviceTransport* slice_device() const { return slice_device_.get(); }

  // The share that one of its ranks has of rows of the part.
  RowRange share(RowRange rows, int of_role) const {
    return map_.share(map_.rank_of(part(), of_role), rows);
  }
  RowRange share(RowRange rows) const { return share(rows, role()); }
  // The rows of the part that this rank has, in its order, where the first rows are central: its
  // share of these, then of the marginal ones.
  std::array<RowRange, 2> own_rows(std::int64_t central, std::int64_t rows) const {
    return {share({0, central}), share({central, rows})};
  }
  // The entries of this rank's rows among all, so many for each row of the part.
  template <typename T>
  std::vector<T> of_own_rows(std::span<const T> all, std::int64_t central,
                             std::int64_t entries) const {
    std::vector<T> own;
    const std::int64_t rows = entries == 0 ? 0 : std::ssize(all) / entries;
    if (rows == 0) return own;
    for (const RowRange range : own_rows(central, rows)) {
      const auto first = all.begin() + range.begin * entries;
      own.insert(own.end(), first, first + range.size() * entries);
    }
    return own;
  }

 private:
  RankMap map_;
  int rank_;
  std::unique_ptr<Transport> members_;
  std::unique_ptr<Transport> slice_;
  std::unique_ptr<DeviceTransport> members_device_;
  std::unique_ptr<DeviceTransport> slice_device_;
};

}  // namespace atl
