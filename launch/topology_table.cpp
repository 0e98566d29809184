#include "launch/topology_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/memory.hpp"
#include "base/numbers.hpp"
#include "base/table_text.hpp"

namespace atl {

namespace {

using Row = TableTextRow;

constexpr const char* kNoLimit = "no limit";

std::string text_of(const std::vector<Row>& rows) { return table_text(rows, kNoLimit); }

// Four digits, but never a power of ten.
std::string number(double value) {
  return value >= 1000 && value < 1e15 ? fmt::format("{:.0f}", value)
                                       : fmt::format("{:.4g}", value);
}

std::string limit(double bytes_per_s) {
  return std::isinf(bytes_per_s) ? kNoLimit : number(bytes_per_s * 8e-6);
}

// "0-3, 6"
std::string ranges_of(const std::vector<int>& ranks) {
  return fmt::format("{}", fmt::join(number_ranges(ranks), ", "));
}

std::string host_table(const Topology& topology) {
  std::vector<Row> rows{{"host", "ranks", "send Mbit/s", "receive Mbit/s"}};
  for (std::size_t h = 0; h < topology.hosts.size(); ++h) {
    std::vector<int> ranks;
    for (int rank = 0; rank < topology.ranks(); ++rank) {
      if (topology.device(rank).host == static_cast<int>(h)) {
        ranks.push_back(rank);
      }
    }
    const Host& host = topology.hosts[h];
    rows.push_back({host.name, ranges_of(ranks), limit(host.send_bytes_per_s),
                    limit(host.receive_bytes_per_s)});
  }
  return text_of(rows);
}

std::string rates_text(const std::vector<RateAtColumns>& rates) {
  std::vector<std::string> parts;
  for (const RateAtColumns& rate : rates) {
    parts.push_back(fmt::format("{}: {}", rate.columns, number(rate.per_s / 1e9)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

// Neighbouring ranks that compute alike, whatever their host and island, share a row.
std::string rank_table(const Topology& topology) {
  std::vector<Row> rows{{"ranks", "kind", "memory", "elementwise GB/s", "quantize GB/s",
                         "progress ms/GB", "polling %", "SpMM GB/s by columns",
                         "GEMM GFLOP/s by columns"}};
  std::vector<int> first;
  for (int rank = 0; rank < topology.ranks(); ++rank) {
    const Device& device = topology.device(rank);
    Row row{"",
            device.kind,
            format_bytes(static_cast<std::int64_t>(device.memory_bytes)),
            number(device.elementwise_bytes_per_s / 1e9),
            number(device.quantize_bytes_per_s / 1e9),
            number(device.progress_s_per_byte * 1e12),
            number(device.polling_share * 100),
            rates_text(device.spmm_bytes_per_s),
            rates_text(device.gemm_flop_per_s)};
    const bool same =
        !first.empty() && std::equal(row.begin() + 1, row.end(), rows.back().begin() + 1);
    if (!same) {
      rows.push_back(std::move(row));
      first.push_back(rank);
    }
    rows.back()[0] =
        first.back() == rank ? std::to_string(rank) : fmt::format("{}-{}", first.back(), rank);
  }
  return text_of(rows);
}

std::string island_table(const Topology& topology) {
  std::vector<std::vector<int>> members;
  for (int rank = 0; rank < topology.ranks(); ++rank) {
    const auto island = static_cast<std::size_t>(topology.device(rank).island);
    members.resize(std::max(members.size(), island + 1));
    members[island].push_back(rank);
  }
  std::vector<Row> rows{{"island", "ranks"}};
  for (std::size_t i = 0; i < members.size(); ++i) {
    rows.push_back({std::to_string(i), ranges_of(members[i])});
  }
  return text_of(rows);
}

std::string class_table(const Topology& topology) {
  constexpr const char* kNames[] = {"within an island", "within a host", "between hosts"};
  std::vector<double> latencies[std::size(kNames)];
  std::vector<double> rates[std::size(kNames)];
  for (int from = 0; from < topology.ranks(); ++from) {
    for (int to = 0; to < topology.ranks(); ++to) {
      if (from == to) continue;
      const auto kind = static_cast<std::size_t>(link_class(topology, from, to));
      latencies[kind].push_back(topology.link(from, to).latency_s * 1e6);
      rates[kind].push_back(topology.link(from, to).bytes_per_s * 8e-9);
    }
  }
  const auto spread = [](std::vector<double>& values) {
    std::ranges::sort(values);
    const std::string middle = number(values[values.size() / 2]);
    if (values.front() == values.back()) return middle;
    return fmt::format("{} ({} to {})", middle, number(values.front()), number(values.back()));
  };
  std::vector<Row> rows{{"links", "pairs", "latency us", "Gbit/s"}};
  for (std::size_t kind = 0; kind < std::size(kNames); ++kind) {
    if (rates[kind].empty()) continue;
    rows.push_back({kNames[kind], std::to_string(rates[kind].size()), spread(latencies[kind]),
                    spread(rates[kind])});
  }
  return rows.size() == 1 ? "" : text_of(rows);
}

std::string link_matrix(const Topology& topology) {
  constexpr int kMostRanks = 16;
  if (topology.ranks() == 1 || topology.ranks() > kMostRanks) return "";
  std::vector<Row> rows{{"Gbit/s from"}};
  for (int to = 0; to < topology.ranks(); ++to) rows[0].push_back(fmt::format("to {}", to));
  for (int from = 0; from < topology.ranks(); ++from) {
    Row row{std::to_string(from)};
    for (int to = 0; to < topology.ranks(); ++to) {
      row.push_back(from == to ? "-" : number(topology.link(from, to).bytes_per_s * 8e-9));
    }
    rows.push_back(std::move(row));
  }
  return text_of(rows);
}

}  // namespace

std::string topology_table(const Topology& topology) {
  const auto count = [](int number, const char* what) {
    return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
  };
  const int islands = 1 + std::ranges::max_element(topology.devices, {}, &Device::island)->island;
  std::string text =
      fmt::format("{} on {}, {}\n", count(topology.ranks(), "rank"),
                  count(static_cast<int>(topology.hosts.size()), "host"), count(islands, "island"));
  for (const std::string& table :
       {host_table(topology), island_table(topology), rank_table(topology), class_table(topology),
        link_matrix(topology)}) {
    if (!table.empty()) text += '\n' + table;
  }
  return text;
}

}  // namespace atl
