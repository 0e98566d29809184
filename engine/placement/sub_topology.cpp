#include "engine/placement/sub_topology.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.hpp"

namespace atl {

namespace {

// How exactly rates of ranks and of links are measured.
constexpr double kRateTolerance = 1.05;
constexpr double kLinkTolerance = 1.25;

bool are_near(double a, double b, double tolerance) {
  return a == b || std::max(a, b) <= tolerance * std::min(a, b);
}

bool are_near(const std::vector<RateAtColumns>& a, const std::vector<RateAtColumns>& b) {
  return std::ranges::equal(a, b, [](const RateAtColumns& x, const RateAtColumns& y) {
    return x.columns == y.columns && are_near(x.per_s, y.per_s, kRateTolerance);
  });
}

// Wherever they are. What transfers take from computing is measured less exactly than rates, and
// is little.
bool compute_alike(const Device& a, const Device& b) {
  const auto near = [](double x, double y) { return are_near(x, y, kRateTolerance); };
  return a.kind == b.kind && near(a.memory_bytes, b.memory_bytes) &&
         are_near(a.spmm_bytes_per_s, b.spmm_bytes_per_s) &&
         are_near(a.gemm_flop_per_s, b.gemm_flop_per_s) &&
         near(a.elementwise_bytes_per_s, b.elementwise_bytes_per_s) &&
         near(a.quantize_bytes_per_s, b.quantize_bytes_per_s);
}

// Whether the machine stays the same when two hosts change places.
class HostExchange {
 public:
  explicit HostExchange(const Topology& topology)
      : topology_(topology), ranks_(ranks_by(topology, &Device::host)) {}

  bool keeps_machine(std::size_t a, std::size_t b) {
    const std::vector<int>& of_a = ranks_[a];
    const std::vector<int>& of_b = ranks_[b];
    if (of_a.size() != of_b.size() || !cards_are_near(topology_.hosts[a], topology_.hosts[b])) {
      return false;
    }
    to_.resize(static_cast<std::size_t>(topology_.ranks()));
    for (int rank = 0; rank < topology_.ranks(); ++rank) to_[static_cast<std::size_t>(rank)] = rank;
    for (std::size_t i = 0; i < of_a.size(); ++i) {
      if (!compute_alike(topology_.device(of_a[i]), topology_.device(of_b[i]))) return false;
      to_[static_cast<std::size_t>(of_a[i])] = of_b[i];
      to_[static_cast<std::size_t>(of_b[i])] = of_a[i];
    }
    bool same = true;
    topology_.for_each_pair([&](int from, int to) { same = same && pair_is_kept(from, to); });
    return same;
  }

  int slots(std::size_t host) const { return static_cast<int>(ranks_[host].size()); }

 private:
  static bool cards_are_near(const Host& a, const Host& b) {
    return are_near(a.send_bytes_per_s, b.send_bytes_per_s, kLinkTolerance) &&
           are_near(a.receive_bytes_per_s, b.receive_bytes_per_s, kLinkTolerance);
  }
  bool pair_is_kept(int from, int to) const {
    const int other_from = to_[static_cast<std::size_t>(from)];
    const int other_to = to_[static_cast<std::size_t>(to)];
    const auto island = [&](int rank) { return topology_.device(rank).island; };
    return (island(from) == island(to)) == (island(other_from) == island(other_to)) &&
           are_near(topology_.link(from, to).bytes_per_s,
                    topology_.link(other_from, other_to).bytes_per_s, kLinkTolerance);
  }

  const Topology& topology_;
  std::vector<std::vector<int>> ranks_;
  std::vector<int> to_;  // by rank: the one whose place it takes
};

}  // namespace

std::vector<ScheduledHost> scheduled_hosts(const Topology& topology) {
  HostExchange exchange(topology);
  std::vector<ScheduledHost> hosts;
  std::vector<std::size_t> first;  // of each kind
  for (std::size_t h = 0; h < topology.hosts.size(); ++h) {
    const auto known = std::ranges::find_if(
        first, [&](std::size_t other) { return exchange.keeps_machine(other, h); });
    hosts.push_back({.name = topology.hosts[h].name,
                     .slots = exchange.slots(h),
                     .kind = static_cast<int>(known - first.begin())});
    if (known == first.end()) first.push_back(h);
  }
  return hosts;
}

Topology sub_topology(const Topology& topology, const JobPlacement& placement) {
  const std::vector<std::vector<int>> ranks = ranks_by(topology, &Device::host);
  Topology part;
  std::vector<int> taken;
  for (const int host : placement.hosts) {
    const std::vector<int>& of_host = ranks.at(static_cast<std::size_t>(host));
    ATOLL_ASSERT(placement.ranks_per_host >= 1 &&
                     placement.ranks_per_host <= static_cast<int>(of_host.size()),
                 "{} ranks on a host of {}", placement.ranks_per_host, of_host.size());
    part.hosts.push_back(topology.hosts[static_cast<std::size_t>(host)]);
    taken.insert(taken.end(), of_host.begin(), of_host.begin() + placement.ranks_per_host);
  }
  std::map<int, int> islands;
  for (std::size_t r = 0; r < taken.size(); ++r) {
    Device device = topology.device(taken[r]);
    device.host = static_cast<int>(r) / placement.ranks_per_host;
    device.island = islands.emplace(device.island, static_cast<int>(islands.size())).first->second;
    part.devices.push_back(std::move(device));
  }
  for (const int from : taken) {
    for (const int to : taken) part.links.push_back(topology.link(from, to));
  }
  return part;
}

}  // namespace atl
