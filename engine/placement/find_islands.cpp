#include <algorithm>
#include <map>

#include "engine/placement/network_probe.hpp"

namespace atl {

namespace {

constexpr double kClearlyFaster = 2;

struct HostPairs {
  const std::vector<int>& members;  // ranks of one host
  const std::vector<Link>& links;
  std::size_t ranks;

  // Of the slower direction.
  double rate(std::size_t i, std::size_t j) const {
    const auto a = static_cast<std::size_t>(members[i]);
    const auto b = static_cast<std::size_t>(members[j]);
    return std::min(links[a * ranks + b].bytes_per_s, links[b * ranks + a].bytes_per_s);
  }

  template <typename Body>
  void for_each(const Body& body) const {
    for (std::size_t i = 0; i < members.size(); ++i) {
      for (std::size_t j = i + 1; j < members.size(); ++j) body(i, j, rate(i, j));
    }
  }
};

// The slowest rate of the fast class, after the widest gap; 0 if no gap is clear.
double fast_from(const HostPairs& pairs) {
  std::vector<double> rates;
  pairs.for_each([&](std::size_t, std::size_t, double rate) { rates.push_back(rate); });
  std::ranges::sort(rates);
  double widest = kClearlyFaster;
  double result = 0;
  for (std::size_t i = 1; i < rates.size(); ++i) {
    if (rates[i] < widest * rates[i - 1]) continue;
    widest = rates[i] / rates[i - 1];
    result = rates[i];
  }
  return result;
}

// By member: the lowest member of its island. All 0 if fast pairs form no groups, in which every
// pair is fast and outside of which none is.
std::vector<std::size_t> groups_of(const HostPairs& pairs) {
  const std::vector<std::size_t> together(pairs.members.size(), 0);
  const double fast = fast_from(pairs);
  if (fast == 0) return together;
  std::vector<std::size_t> group(pairs.members.size());
  for (std::size_t i = 0; i < group.size(); ++i) {
    group[i] = i;
    for (std::size_t j = 0; j < i; ++j) {
      if (pairs.rate(i, j) < fast) continue;
      group[i] = group[j];
      break;
    }
  }
  bool clear = true;
  pairs.for_each([&](std::size_t i, std::size_t j, double rate) {
    clear = clear && (group[i] == group[j]) == (rate >= fast);
  });
  return clear ? group : together;
}

}  // namespace

std::vector<int> find_islands(const std::vector<int>& host_of, const std::vector<Link>& links) {
  std::map<int, std::vector<int>> members_of;
  for (std::size_t rank = 0; rank < host_of.size(); ++rank) {
    members_of[host_of[rank]].push_back(static_cast<int>(rank));
  }
  std::vector<int> lowest(host_of.size());  // rank of each rank's island
  for (const auto& [host, members] : members_of) {
    const std::vector<std::size_t> group = groups_of({members, links, host_of.size()});
    for (std::size_t i = 0; i < members.size(); ++i) {
      lowest[static_cast<std::size_t>(members[i])] = members[group[i]];
    }
  }
  std::vector<int> islands(host_of.size());
  int next = 0;
  for (std::size_t rank = 0; rank < host_of.size(); ++rank) {
    const auto first = static_cast<std::size_t>(lowest[rank]);
    islands[rank] = first == rank ? next++ : islands[first];
  }
  return islands;
}

}  // namespace atl
