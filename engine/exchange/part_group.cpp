#include "engine/exchange/part_group.hpp"

namespace atl {

PartGroup::PartGroup(Transport& job, const RankMap& map, DeviceTransport* device)
    : map_(map), rank_(job.rank()) {
  ATOLL_ASSERT(job.size() == map.ranks(), "{} ranks, {} in the map", job.size(), map.ranks());
  members_ = job.split(part(), fmt::format("part {}", part()));
  slice_ = job.split(role(), fmt::format("slice {}", role()));
  if (device == nullptr) return;
  members_device_ = device->split(members_.get());
  slice_device_ = device->split(slice_.get());
}

}  // namespace atl
