// Rows of all ranks on one, in the order of the nodes' ids.
#pragma once

#include <cstring>
#include <span>
#include <vector>

#include "base/ids.hpp"
#include "engine/comm/transport.hpp"

namespace atl {

// `local` has so many columns for each node of `ids`; all ranks together have `nodes`. Empty except
// on rank 0. Collective.
template <typename T>
std::vector<T> gather_rows(Transport& transport, std::span<const GlobalId> ids,
                           std::span<const T> local, std::int64_t columns, std::int64_t nodes,
                           const OperationLabel& label) {
  const auto all_ids = transport.gather(std::as_bytes(ids), 0, label);
  const auto rows = transport.gather(std::as_bytes(local), 0, label);
  if (transport.rank() != 0) return {};
  std::vector<T> all(static_cast<std::size_t>(nodes * columns));
  const std::size_t row_bytes = static_cast<std::size_t>(columns) * sizeof(T);
  for (std::size_t r = 0; r < all_ids.size(); ++r) {
    const std::size_t count = all_ids[r].size() / sizeof(GlobalId);
    for (std::size_t i = 0; i < count; ++i) {
      GlobalId id{};
      std::memcpy(&id, all_ids[r].data() + i * sizeof(GlobalId), sizeof(GlobalId));
      std::memcpy(all.data() + to_index(id) * columns, rows[r].data() + i * row_bytes, row_bytes);
    }
  }
  return all;
}

}  // namespace atl
