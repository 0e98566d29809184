#include "engine/program/node_type_rows.hpp"

#include <algorithm>

namespace atl {

NodeTypeRows::NodeTypeRows(Backend& backend, Queue& queue, std::span<const std::uint16_t> types) {
  std::vector<LocalId> sorted = first_numbers<LocalId>(std::ssize(types));
  std::ranges::stable_sort(sorted, {}, [&](LocalId row) { return types[to_index(row)]; });
  std::vector<LocalId> places(types.size());
  for (std::size_t k = 0; k < sorted.size(); ++k) {
    places[to_index(sorted[k])] = static_cast<LocalId>(k);
    const std::int64_t type = types[to_index(sorted[k])];
    const auto place = static_cast<std::int64_t>(k);
    if (blocks_.empty() || blocks_.back().type != type) blocks_.push_back({type, {place, place}});
    ++blocks_.back().rows.end;
  }
  sorted_ = {backend, queue, std::move(sorted)};
  places_ = {backend, queue, std::move(places)};
}

NodeTypeRows NodeTypeRows::evenly(std::int64_t types, std::int64_t rows) {
  NodeTypeRows all;
  for (std::int64_t type = 0; type < types; ++type) {
    all.blocks_.push_back({type, {rows * type / types, rows * (type + 1) / types}});
  }
  return all;
}

}  // namespace atl
