#include "partition/recomputation.hpp"

#include <algorithm>

namespace atl {

Recomputation::Recomputation(int ranks)
    : ranks_(ranks), pairs_(static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks), 0) {}

Recomputation Recomputation::of_all_pairs(int ranks) {
  Recomputation all(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    for (int owner = 0; owner < ranks; ++owner) {
      if (owner != rank) all.set(rank, owner);
    }
  }
  return all;
}

bool Recomputation::any() const {
  return std::any_of(pairs_.begin(), pairs_.end(), [](std::uint8_t pair) { return pair != 0; });
}

Json to_json(const Recomputation& recomputation) {
  if (!recomputation.any()) return nullptr;
  Json ranks = Json::array();
  for (int rank = 0; rank < recomputation.ranks(); ++rank) {
    Json owners = Json::array();
    for (int owner = 0; owner < recomputation.ranks(); ++owner) {
      if (recomputation.computes(rank, owner)) owners.push_back(owner);
    }
    ranks.push_back(std::move(owners));
  }
  return ranks;
}

Recomputation parse_recomputation(const Json& json, int ranks, const std::filesystem::path& place) {
  if (json.is_null()) return {};
  if (!json.is_array() || std::ssize(json) != ranks) {
    fail_input("{}: it must be null or an array of {} arrays of ranks, but is {}", place.string(),
               ranks, shown(json));
  }
  Recomputation result(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    const Json& owners = json.at(static_cast<std::size_t>(rank));
    if (!owners.is_array()) {
      fail_input("{}: entry {} is {}; it must be an array of ranks", place.string(), rank,
                 shown(owners));
    }
    for (const Json& owner : owners) {
      if (!owner.is_number_integer() || owner.get<std::int64_t>() < 0 ||
          owner.get<std::int64_t>() >= ranks || owner.get<std::int64_t>() == rank) {
        fail_input("{}: entry {} has {}; allowed are the other ranks, 0 to {}", place.string(),
                   rank, shown(owner), ranks - 1);
      }
      result.set(rank, owner.get<int>());
    }
  }
  return result;
}

}  // namespace atl
