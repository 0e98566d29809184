#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <vector>

#include "engine/placement/traced_run.hpp"

namespace atl {

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
  for (std::size_t begin = 0; begin <= inside.size();) {
    const std::size_t comma = std::min(inside.find(',', begin), inside.size());
    change.arguments.push_back(inside.substr(begin, comma - begin));
    begin = comma + 1;
  }
  return change;
}

std::size_t rank_of(const std::string& text, const Topology& topology, const std::string& change) {
  int rank = -1;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), rank);
  if (parsed.ptr != text.data() + text.size() || rank < 0 || rank >= topology.ranks()) {
    fail_option("--set {}: '{}' is no rank; allowed are 0 to {}", change, text,
                topology.ranks() - 1);
  }
  return static_cast<std::size_t>(rank);
}

// The card of one host (all: -1) and the links that pass it.
void scale_card(Topology& topology, int host, double factor) {
  for (std::size_t h = 0; h < topology.hosts.size(); ++h) {
    if (host >= 0 && static_cast<int>(h) != host) continue;
    topology.hosts[h].send_bytes_per_s *= factor;
    topology.hosts[h].receive_bytes_per_s *= factor;
  }
  const std::size_t ranks = topology.devices.size();
  for (std::size_t from = 0; from < ranks; ++from) {
    for (std::size_t to = 0; to < ranks; ++to) {
      const int a = topology.devices[from].host;
      const int b = topology.devices[to].host;
      if (a != b && (host < 0 || a == host || b == host)) {
        topology.links[from * ranks + to].bytes_per_s *= factor;
      }
    }
  }
}

void scale_speed(Device& device, double factor) {
  for (auto* rates : {&device.spmm_bytes_per_s, &device.gemm_flop_per_s}) {
    for (RateAtWidth& rate : *rates) rate.per_s *= factor;
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
    const std::size_t from = rank_of(change.arguments[0], topology, text);
    const std::size_t to = rank_of(change.arguments[1], topology, text);
    topology.links[from * topology.devices.size() + to].bytes_per_s *= change.factor;
  } else if (change.what == "speed") {
    takes(1);
    scale_speed(topology.devices[rank_of(change.arguments[0], topology, text)], change.factor);
  } else {
    fail_option("--set {}: '{}' is unknown; {}", text, change.what, kAllowed);
  }
}

}  // namespace atl
