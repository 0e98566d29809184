#include "partition/sum_route.hpp"

#include <numeric>

namespace atl {

namespace {

constexpr const char* kAllReduce = "all-reduce";
constexpr const char* kHierarchical = "hierarchical";
constexpr const char* kParameterServer = "parameter-server";

std::vector<std::vector<int>> read_groups(const Json& json, int ranks,
                                          const std::filesystem::path& place) {
  const auto groups = json_field<std::vector<std::vector<int>>>(json, "groups", place);
  std::vector<int> seen(static_cast<std::size_t>(ranks), 0);
  for (const std::vector<int>& group : groups) {
    if (group.size() != groups.front().size()) {
      fail_input("{}: field 'groups' has groups of {} and of {} ranks; all must have as many",
                 place.string(), groups.front().size(), group.size());
    }
    for (const int rank : group) {
      if (rank < 0 || rank >= ranks || ++seen[static_cast<std::size_t>(rank)] > 1) {
        fail_input("{}: field 'groups' has rank {}; allowed is each of 0 to {}, once",
                   place.string(), rank, ranks - 1);
      }
    }
  }
  for (int rank = 0; rank < ranks; ++rank) {
    if (seen[static_cast<std::size_t>(rank)] == 0) {
      fail_input("{}: field 'groups' lacks rank {}; each of 0 to {} must be there once",
                 place.string(), rank, ranks - 1);
    }
  }
  return groups;
}

}  // namespace

const char* to_string(SumChoice choice) { return choice == SumChoice::kAuto ? "auto" : "ranks"; }

SumRoute route_of_groups(int ranks, int each) {
  SumRoute route;
  if (each == 1 || each == ranks) return route;
  for (int first = 0; first < ranks; first += each) {
    route.groups.emplace_back(static_cast<std::size_t>(each));
    std::iota(route.groups.back().begin(), route.groups.back().end(), first);
  }
  return route;
}

std::string name_of(const SumRoute& route) {
  return !route.groups.empty() ? kHierarchical : route.server >= 0 ? kParameterServer : kAllReduce;
}

Json to_json(const SumRoute& route) {
  Json json = {{"by", name_of(route)}};
  if (!route.groups.empty()) json["groups"] = route.groups;
  if (route.server >= 0) json["rank"] = route.server;
  return json;
}

SumRoute parse_sum_route(const Json& json, int ranks, const std::filesystem::path& place) {
  if (json.is_null()) return {};
  const auto by = json_field<std::string>(json, "by", place);
  SumRoute route;
  if (by == kHierarchical) {
    route.groups = read_groups(json, ranks, place);
  } else if (by == kParameterServer) {
    route.server = json_field<int>(json, "rank", place);
    if (route.server < 0 || route.server >= ranks) {
      fail_input("{}: field 'rank' is {}; allowed are 0 to {}", place.string(), route.server,
                 ranks - 1);
    }
  } else if (by != kAllReduce) {
    fail_input("{}: field 'by' is '{}'; allowed are {}, {}, {}", place.string(), by, kAllReduce,
               kHierarchical, kParameterServer);
  }
  return route;
}

}  // namespace atl
