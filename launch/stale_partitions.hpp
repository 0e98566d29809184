// Words of commands that change a dataset about the partitions made before.
#pragma once

#include <fmt/format.h>

#include "datasets/partition_list.hpp"

namespace atl {

inline void tell_stale_partitions(const Dataset& dataset) {
  std::size_t stale = 0;
  for (const PartitionEntry& entry : list_partitions(dataset, {}, /*every_byte=*/false)) {
    stale += entry.removable() ? 1 : 0;
  }
  if (stale == 0) return;
  fmt::print(
      "{} partition{} made before {} no longer used; atoll partition {} --prune removes {}\n",
      stale, stale == 1 ? "" : "s", stale == 1 ? "is" : "are", dataset.folder().string(),
      stale == 1 ? "it" : "them");
}

}  // namespace atl
