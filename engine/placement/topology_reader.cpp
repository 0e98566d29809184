// Reads topology files. They are written by hand, so every field is checked and every message says
// which one, what was found and what is allowed.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "base/json_entry.hpp"
#include "engine/placement/topology.hpp"
#include "engine/placement/topology_format.hpp"
#include "partition/partitioner.hpp"

namespace atl {

namespace {

constexpr const char* kHostPlaceholder = "{host}";

enum class Least : std::uint8_t { kAboveZero, kZero };

struct Entry : JsonEntry {
  using JsonEntry::JsonEntry;

  // Checked after the unit, too: 1e308 Gbit/s is no finite number of bytes.
  double to_base(const std::string& field, const Json& found, const TopologyUnit& unit, Least least,
                 const char* more = "") const {
    const std::string allowed = fmt::format(
        "finite numbers {}{}", least == Least::kZero ? "of at least 0" : "above 0", more);
    if (!found.is_number()) refuse(field, found, allowed);
    const double value = unit.to_base(found.get<double>());
    if (!std::isfinite(value) || value < 0 || (value == 0 && least == Least::kAboveZero)) {
      refuse(field, found, allowed);
    }
    return value;
  }

  double number(const char* field, const TopologyUnit& unit, Least least) const {
    return to_base(field, required(field, "numbers"), unit, least);
  }
};

// null or nothing: no limit.
double host_limit(const Entry& host, const char* field) {
  if (!host.has(field) || host.json.at(field).is_null()) {
    return std::numeric_limits<double>::infinity();
  }
  return host.to_base(field, host.json.at(field), kMbitPerS, Least::kAboveZero,
                      ", and null for no limit");
}

// {"16": 3.1, "64": 4}: rates by columns.
std::vector<RateAtColumns> rates_of(const Entry& rank, const char* field,
                                    const TopologyUnit& unit) {
  const std::string allowed = R"(objects of rates by columns, as {"16": 3.1, "64": 4})";
  const Json& found = rank.required(field, allowed);
  if (!found.is_object() || found.empty()) rank.refuse(field, found, allowed);
  const Entry entry(found, fmt::format("{}.{}", rank.place, field), [&] {
    std::vector<std::string> names;
    for (const auto& [name, value] : found.items()) names.push_back(name);
    return names;
  }());
  std::vector<RateAtColumns> rates;
  for (const auto& [name, value] : found.items()) {
    const bool digits = name.find_first_not_of("0123456789") == std::string::npos;
    if (!digits || name.empty() || name.size() > 9 || name.front() == '0') {
      fail_input("{}: '{}' is no number of columns; allowed are whole numbers from 1 to 999999999",
                 entry.place, name);
    }
    rates.push_back({std::stoll(name), entry.to_base(name, value, unit, Least::kAboveZero)});
  }
  std::ranges::sort(rates, {}, &RateAtColumns::columns);
  return rates;
}

Link link_of(const Entry& entry) {
  return {entry.number("latency_us", kMicroseconds, Least::kZero),
          entry.number("gbit_per_s", kGbitPerS, Least::kAboveZero)};
}

class TopologyReader {
 public:
  explicit TopologyReader(const Json& json, const std::string& place)
      : root_(json, place, {"format", "hosts", "ranks", "links"}) {}

  Topology read() {
    root_.require_format(1);
    read_list("hosts", [&](const Json& json, const std::string& place) { read_host(json, place); });
    read_list("ranks", [&](const Json& json, const std::string& place) { read_rank(json, place); });
    require_ranks();
    number_islands();
    read_links();
    return std::move(topology_);
  }

 private:
  // Host `first` and those after it.
  struct HostGroup {
    int first = 0;
    int count = 1;
  };

  template <typename Read>
  void read_list(const char* field, const Read& read) {
    std::size_t index = 0;
    for (const Json& json : root_.list(field, "lists with at least one entry")) {
      read(json, fmt::format("{}: {}[{}]", root_.place, field, index++));
    }
  }

  void name_group(const Entry& entry, const std::string& name, HostGroup group) {
    if (groups_.emplace(name, group).second) return;
    fail_input("{}: host '{}' is there already; allowed are names of their own", entry.place, name);
  }

  void read_host(const Json& json, const std::string& place) {
    const Entry entry(json, place, {"name", "count", "send_mbit_per_s", "receive_mbit_per_s"});
    const std::string name = entry.text("name", "names");
    Host host{name, host_limit(entry, "send_mbit_per_s"), host_limit(entry, "receive_mbit_per_s")};
    const int first = static_cast<int>(topology_.hosts.size());
    if (first >= kMaxParts) fail_input("{}: more than {} hosts", place, kMaxParts);
    const auto count = static_cast<int>(entry.whole_or("count", 1, kMaxParts - first, 1));
    name_group(entry, name, {first, count});
    for (int i = 0; i < count; ++i) {
      if (entry.has("count")) {
        host.name = fmt::format("{}-{}", name, i);
        name_group(entry, host.name, {first + i, 1});
      }
      topology_.hosts.push_back(host);
    }
  }

  void read_rank(const Json& json, const std::string& place) {
    std::vector<std::string> known = {"host", "island", "kind"};
    for (const DeviceField& field : kDeviceFields) known.emplace_back(field.name);
    known.emplace_back("count");
    const Entry entry(json, place, known);
    const HostGroup hosts = group_of(entry);
    Device device;
    device.kind = entry.text("kind", "cpu and cuda");
    if (device.kind != "cpu" && device.kind != "cuda") {
      entry.refuse("kind", device.kind, "cpu and cuda");
    }
    for (const DeviceField& field : kDeviceFields) {
      if (field.rates != nullptr) {
        device.*field.rates = rates_of(entry, field.name, field.unit);
      } else if (!field.may_be_zero || entry.has(field.name)) {
        device.*field.number = entry.number(field.name, field.unit,
                                            field.may_be_zero ? Least::kZero : Least::kAboveZero);
      }
    }
    if (device.polling_share > 1) {
      entry.refuse("polling_percent", kPercent.from_base(device.polling_share), "0 to 100");
    }
    const int room = (kMaxParts - topology_.ranks()) / hosts.count;
    if (room == 0) fail_input("{}: more than {} ranks in all", entry.place, kMaxParts);
    const auto count = static_cast<int>(entry.whole_or("count", 1, room, 1));
    for (int host = hosts.first; host < hosts.first + hosts.count; ++host) {
      device.host = host;
      topology_.devices.insert(topology_.devices.end(), static_cast<std::size_t>(count), device);
      island_names_.insert(island_names_.end(), static_cast<std::size_t>(count),
                           island_of(entry, host));
    }
  }

  HostGroup group_of(const Entry& entry) const {
    const std::string name = entry.text("host", "names of hosts");
    const auto found = groups_.find(name);
    if (found != groups_.end()) return found->second;
    std::vector<std::string> names;
    for (const auto& [known, group] : groups_) names.push_back(known);
    constexpr std::size_t kShown = 20;
    const bool more = names.size() > kShown;
    names.resize(std::min(names.size(), kShown));
    entry.refuse("host", name, fmt::format("{}{}", fmt::join(names, ", "), more ? ", ..." : ""));
  }

  std::string island_of(const Entry& entry, int host) const {
    const std::string& host_name = topology_.hosts[static_cast<std::size_t>(host)].name;
    std::string island = entry.has("island") ? entry.text("island", "names") : host_name;
    const std::size_t at = island.find(kHostPlaceholder);
    if (at != std::string::npos) {
      island.replace(at, std::string(kHostPlaceholder).size(), host_name);
    }
    return island;
  }

  void require_ranks() const {
    std::set<int> used;
    for (const Device& device : topology_.devices) used.insert(device.host);
    for (std::size_t host = 0; host < topology_.hosts.size(); ++host) {
      if (used.contains(static_cast<int>(host))) continue;
      fail_input("{}: hosts: host '{}' has no rank; allowed are hosts with at least one in 'ranks'",
                 root_.place, topology_.hosts[host].name);
    }
  }

  void number_islands() {
    std::map<std::string, int> numbers;
    for (std::size_t rank = 0; rank < island_names_.size(); ++rank) {
      const int next = static_cast<int>(numbers.size());
      topology_.devices[rank].island = numbers.emplace(island_names_[rank], next).first->second;
    }
  }

  void read_links() {
    topology_.links.resize(topology_.devices.size() * topology_.devices.size());
    if (topology_.ranks() == 1 && !root_.has("links")) return;
    const Entry links(root_.required("links", "objects with the speed of every pair of ranks"),
                      fmt::format("{}: links", root_.place),
                      {"within_island", "within_host", "between_hosts", "pairs"});
    std::optional<Link> classes[std::size(kLinkClassFields)];
    for (std::size_t kind = 0; kind < std::size(kLinkClassFields); ++kind) {
      if (!links.has(kLinkClassFields[kind])) continue;
      classes[kind] = link_of(Entry(links.json.at(kLinkClassFields[kind]),
                                    fmt::format("{}.{}", links.place, kLinkClassFields[kind]),
                                    {"latency_us", "gbit_per_s"}));
    }
    const std::vector<bool> given = read_pairs(links);
    topology_.for_each_pair([&](int from, int to) {
      if (given[topology_.pair(from, to)]) return;
      const auto kind = static_cast<std::size_t>(link_class(topology_, from, to));
      if (!classes[kind]) {
        fail_input("{}: nothing links rank {} to rank {}; give '{}', or this pair in 'pairs'",
                   links.place, from, to, kLinkClassFields[kind]);
      }
      topology_.link(from, to) = *classes[kind];
    });
  }

  // Fills the links of 'pairs'; returns which those are.
  std::vector<bool> read_pairs(const Entry& links) {
    std::vector<bool> given(topology_.links.size(), false);
    if (!links.has("pairs")) return given;
    const Json& pairs = links.json.at("pairs");
    if (!pairs.is_array()) links.refuse("pairs", pairs, "lists");
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const Entry pair(pairs[i], fmt::format("{}.pairs[{}]", links.place, i),
                       {"from", "to", "latency_us", "gbit_per_s"});
      const int last = topology_.ranks() - 1;
      const auto from = static_cast<int>(pair.whole("from", 0, last));
      const auto to = static_cast<int>(pair.whole("to", 0, last));
      const std::size_t index = topology_.pair(from, to);
      if (from == to || given[index]) {
        fail_input("{}: from rank {} to rank {}; allowed are two ranks, and every pair once",
                   pair.place, from, to);
      }
      topology_.links[index] = link_of(pair);
      given[index] = true;
    }
    return given;
  }

  Entry root_;
  Topology topology_;
  std::map<std::string, HostGroup> groups_;
  std::vector<std::string> island_names_;  // by rank
};

}  // namespace

Topology parse_topology(const Json& json, const std::string& place) {
  return TopologyReader(json, place).read();
}

}  // namespace atl
