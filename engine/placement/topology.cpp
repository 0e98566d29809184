#include "engine/placement/topology.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "engine/placement/topology_format.hpp"

namespace atl {

namespace {

Json rates_json(const std::vector<RateAtColumns>& rates, const TopologyUnit& unit) {
  Json json = Json::object();
  for (const RateAtColumns& rate : rates) {
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
  for (const DeviceField& field : kDeviceFields) {
    json[field.name] = field.rates != nullptr ? rates_json(device.*field.rates, field.unit)
                                              : Json(field.unit.from_base(device.*field.number));
  }
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
  const auto class_of = [&](int from, int to) {
    return static_cast<std::size_t>(link_class(topology, from, to));
  };
  topology.for_each_pair(
      [&](int from, int to) { ++counts[class_of(from, to)][key_of(topology.link(from, to))]; });
  Json json = Json::object();
  std::optional<LinkKey> common[std::size(kLinkClassFields)];
  for (std::size_t kind = 0; kind < std::size(kLinkClassFields); ++kind) {
    common[kind] = common_link(counts[kind]);
    if (common[kind]) json[kLinkClassFields[kind]] = link_json(*common[kind]);
  }
  Json pairs = Json::array();
  topology.for_each_pair([&](int from, int to) {
    const LinkKey link = key_of(topology.link(from, to));
    if (link == common[class_of(from, to)]) return;
    Json pair = {{"from", from}, {"to", to}};
    pair.update(link_json(link));
    pairs.push_back(std::move(pair));
  });
  if (!pairs.empty()) json["pairs"] = std::move(pairs);
  return json;
}

}  // namespace

LinkClass link_class(const Topology& topology, int from, int to) {
  const Device& a = topology.device(from);
  const Device& b = topology.device(to);
  if (a.island == b.island) return LinkClass::kWithinIsland;
  return a.host == b.host ? LinkClass::kWithinHost : LinkClass::kBetweenHosts;
}

std::vector<std::vector<int>> ranks_by(const Topology& topology, int Device::*place) {
  std::vector<std::vector<int>> ranks;
  for (int rank = 0; rank < topology.ranks(); ++rank) {
    const auto number = static_cast<std::size_t>(topology.device(rank).*place);
    if (number >= ranks.size()) ranks.resize(number + 1);
    ranks[number].push_back(rank);
  }
  return ranks;
}

double rate_at(const std::vector<RateAtColumns>& rates, std::int64_t columns) {
  ATOLL_ASSERT(!rates.empty());
  const auto above = std::ranges::lower_bound(rates, columns, {}, &RateAtColumns::columns);
  if (above == rates.end()) return rates.back().per_s;
  if (above == rates.begin() || above->columns == columns) return above->per_s;
  const RateAtColumns& below = *(above - 1);
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

// --- a changed machine
// ------------------------------------------------------------------------------

namespace {

constexpr const char* kAllowed =
    "allowed are cards=0.5x, card(HOST)=2x, bw(FROM,TO)=2x and speed(RANK)=0.5x";

struct Change {
  std::string what;
  std::vector<std::string> arguments;
  double factor = 0;
};

// "what(a,b)=2x"
Change parse_change(const std::string& text) {
  Change change;
  const std::size_t equals = text.find('=');
  const std::string left = text.substr(0, equals);
  const std::string right = equals == std::string::npos ? "" : text.substr(equals + 1);
  const char* end = right.data() + right.size();
  const auto parsed = std::from_chars(right.data(), end, change.factor);
  const bool valid = parsed.ec == std::errc() && parsed.ptr + 1 == end && *parsed.ptr == 'x' &&
                     std::isfinite(change.factor) && change.factor > 0;
  if (!valid)
    fail_option("--set {}: '{}' is no factor above 0 as in 2x; {}", text, right, kAllowed);
  const std::size_t open = left.find('(');
  change.what = left.substr(0, open);
  if (open == std::string::npos) return change;
  if (left.back() != ')') fail_option("--set {}: a bracket is open; {}", text, kAllowed);
  const std::string inside = left.substr(open + 1, left.size() - open - 2);
  change.arguments = between_commas(inside);
  return change;
}

int rank_of(const std::string& text, const Topology& topology, const std::string& change) {
  const auto rank = parse_number<int>(text, 0, topology.ranks() - 1);
  if (!rank) {
    fail_option("--set {}: '{}' is no rank; allowed are 0 to {}", change, text,
                topology.ranks() - 1);
  }
  return *rank;
}

// The card of one host (all: -1) and the links that pass it.
void scale_card(Topology& topology, int host, double factor) {
  for (std::size_t h = 0; h < topology.hosts.size(); ++h) {
    if (host >= 0 && static_cast<int>(h) != host) continue;
    topology.hosts[h].send_bytes_per_s *= factor;
    topology.hosts[h].receive_bytes_per_s *= factor;
  }
  topology.for_each_pair([&](int from, int to) {
    const int a = topology.device(from).host;
    const int b = topology.device(to).host;
    if (a != b && (host < 0 || a == host || b == host)) {
      topology.link(from, to).bytes_per_s *= factor;
    }
  });
}

void scale_speed(Device& device, double factor) {
  for (auto* rates : {&device.spmm_bytes_per_s, &device.gemm_flop_per_s}) {
    for (RateAtColumns& rate : *rates) rate.per_s *= factor;
  }
  device.elementwise_bytes_per_s *= factor;
  device.quantize_bytes_per_s *= factor;
  device.progress_s_per_byte /= factor;
  device.polling_share = std::min(1.0, device.polling_share / factor);
}

}  // namespace

void change_topology(Topology& topology, const std::string& text) {
  const Change change = parse_change(text);
  const auto takes = [&](std::size_t count) {
    if (change.arguments.size() != count) {
      fail_option("--set {}: {} takes {} value{} in brackets; {}", text, change.what, count,
                  count == 1 ? "" : "s", kAllowed);
    }
  };
  if (change.what == "cards") {
    takes(0);
    scale_card(topology, -1, change.factor);
  } else if (change.what == "card") {
    takes(1);
    const auto host = std::ranges::find(topology.hosts, change.arguments[0], &Host::name);
    if (host == topology.hosts.end()) {
      std::vector<std::string> names;
      for (const Host& known : topology.hosts) names.push_back(known.name);
      fail_option("--set {}: no host is called '{}'; allowed are {}", text, change.arguments[0],
                  fmt::join(names, ", "));
    }
    scale_card(topology, static_cast<int>(host - topology.hosts.begin()), change.factor);
  } else if (change.what == "bw") {
    takes(2);
    const int from = rank_of(change.arguments[0], topology, text);
    const int to = rank_of(change.arguments[1], topology, text);
    topology.links[topology.pair(from, to)].bytes_per_s *= change.factor;
  } else if (change.what == "speed") {
    takes(1);
    const int rank = rank_of(change.arguments[0], topology, text);
    scale_speed(topology.devices[static_cast<std::size_t>(rank)], change.factor);
  } else {
    fail_option("--set {}: '{}' is unknown; {}", text, change.what, kAllowed);
  }
}

}  // namespace atl
