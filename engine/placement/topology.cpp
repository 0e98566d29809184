#include "engine/placement/topology.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "engine/placement/topology_format.hpp"

namespace atl {

namespace {

Json rates_json(const std::vector<RateAtWidth>& rates, const TopologyUnit& unit) {
  Json json = Json::object();
  for (const RateAtWidth& rate : rates) {
    json[std::to_string(rate.columns)] = unit.from_base(rate.per_s);
  }
  return json;
}

Json limit_json(double bytes_per_s) {
  return std::isinf(bytes_per_s) ? Json() : Json(kMbitPerS.from_base(bytes_per_s));
}

// By island: its name, empty for an island that is one whole host, which is what a file without
// the field means.
std::vector<std::string> island_names(const Topology& topology) {
  std::map<int, std::set<int>> hosts_of;
  std::map<int, std::set<int>> islands_of;
  std::set<std::string> taken;
  for (const Host& host : topology.hosts) taken.insert(host.name);
  int most = -1;
  for (const Device& device : topology.devices) {
    hosts_of[device.island].insert(device.host);
    islands_of[device.host].insert(device.island);
    most = std::max(most, device.island);
  }
  std::vector<std::string> names(static_cast<std::size_t>(most + 1));
  for (const auto& [island, hosts] : hosts_of) {
    if (hosts.size() == 1 && islands_of[*hosts.begin()].size() == 1) continue;
    std::string name = fmt::format("island {}", island);
    while (!taken.insert(name).second) name += "'";
    names[static_cast<std::size_t>(island)] = name;
  }
  return names;
}

Json device_json(const Topology& topology, const Device& device, const std::string& island) {
  Json json = {{"host", topology.hosts[static_cast<std::size_t>(device.host)].name}};
  if (!island.empty()) json["island"] = island;
  json["kind"] = device.kind;
  json["memory_gib"] = kGib.from_base(device.memory_bytes);
  json["spmm_gb_per_s"] = rates_json(device.spmm_bytes_per_s, kGbPerS);
  json["gemm_gflop_per_s"] = rates_json(device.gemm_flop_per_s, kGflopPerS);
  json["elementwise_gb_per_s"] = kGbPerS.from_base(device.elementwise_bytes_per_s);
  json["quantize_gb_per_s"] = kGbPerS.from_base(device.quantize_bytes_per_s);
  json["progress_ms_per_gb"] = kMsPerGb.from_base(device.progress_s_per_byte);
  json["polling_percent"] = kPercent.from_base(device.polling_share);
  return json;
}

// Neighbouring ranks with equal entries share one.
Json ranks_json(const Topology& topology) {
  const std::vector<std::string> islands = island_names(topology);
  Json ranks = Json::array();
  Json last;
  int count = 0;
  const auto finish = [&] {
    if (count > 1) last["count"] = count;
    if (count > 0) ranks.push_back(std::move(last));
  };
  for (const Device& device : topology.devices) {
    Json json = device_json(topology, device, islands[static_cast<std::size_t>(device.island)]);
    if (count > 0 && json == last) {
      ++count;
      continue;
    }
    finish();
    last = std::move(json);
    count = 1;
  }
  finish();
  return ranks;
}

using LinkKey = std::pair<double, double>;

LinkKey key_of(const Link& link) { return {link.latency_s, link.bytes_per_s}; }

Json link_json(const LinkKey& link) {
  return {{"latency_us", kMicroseconds.from_base(link.first)},
          {"gbit_per_s", kGbitPerS.from_base(link.second)}};
}

// The link that more than half of the pairs of a class share; nothing if there is none.
std::optional<LinkKey> common_link(const std::map<LinkKey, std::size_t>& counts) {
  std::size_t all = 0;
  for (const auto& [link, count] : counts) all += count;
  for (const auto& [link, count] : counts) {
    if (2 * count > all) return link;
  }
  return std::nullopt;
}

Json links_json(const Topology& topology) {
  std::map<LinkKey, std::size_t> counts[std::size(kLinkClassFields)];
  const auto for_each_pair = [&](const auto& body) {
    for (int from = 0; from < topology.ranks(); ++from) {
      for (int to = 0; to < topology.ranks(); ++to) {
        if (from == to) continue;
        body(from, to, key_of(topology.link(from, to)),
             static_cast<std::size_t>(link_class(topology, from, to)));
      }
    }
  };
  for_each_pair([&](int, int, const LinkKey& link, std::size_t kind) { ++counts[kind][link]; });
  Json json = Json::object();
  std::optional<LinkKey> common[std::size(kLinkClassFields)];
  for (std::size_t kind = 0; kind < std::size(kLinkClassFields); ++kind) {
    common[kind] = common_link(counts[kind]);
    if (common[kind]) json[kLinkClassFields[kind]] = link_json(*common[kind]);
  }
  Json pairs = Json::array();
  for_each_pair([&](int from, int to, const LinkKey& link, std::size_t kind) {
    if (link == common[kind]) return;
    Json pair = {{"from", from}, {"to", to}};
    pair.update(link_json(link));
    pairs.push_back(std::move(pair));
  });
  if (!pairs.empty()) json["pairs"] = std::move(pairs);
  return json;
}

}  // namespace

LinkClass link_class(const Topology& topology, int from, int to) {
  const Device& a = topology.devices[static_cast<std::size_t>(from)];
  const Device& b = topology.devices[static_cast<std::size_t>(to)];
  if (a.island == b.island) return LinkClass::kWithinIsland;
  return a.host == b.host ? LinkClass::kWithinHost : LinkClass::kBetweenHosts;
}

double rate_at(const std::vector<RateAtWidth>& rates, std::int64_t columns) {
  ATOLL_ASSERT(!rates.empty());
  const auto above = std::ranges::lower_bound(rates, columns, {}, &RateAtWidth::columns);
  if (above == rates.end()) return rates.back().per_s;
  if (above == rates.begin() || above->columns == columns) return above->per_s;
  const RateAtWidth& below = *(above - 1);
  const double share = static_cast<double>(columns - below.columns) /
                       static_cast<double>(above->columns - below.columns);
  return below.per_s + share * (above->per_s - below.per_s);
}

Json to_json(const Topology& topology) {
  Json hosts = Json::array();
  for (const Host& host : topology.hosts) {
    hosts.push_back({{"name", host.name},
                     {"send_mbit_per_s", limit_json(host.send_bytes_per_s)},
                     {"receive_mbit_per_s", limit_json(host.receive_bytes_per_s)}});
  }
  return {{"format", 1},
          {"hosts", std::move(hosts)},
          {"ranks", ranks_json(topology)},
          {"links", links_json(topology)}};
}

Topology read_topology(const std::filesystem::path& path) {
  return parse_topology(read_json(path), path.string());
}

}  // namespace atl
