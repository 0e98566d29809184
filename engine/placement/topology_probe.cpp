#include "engine/placement/topology_probe.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "base/host.hpp"
#include "base/log.hpp"
#include "engine/placement/topology_format.hpp"

namespace atl {

namespace {

constexpr OperationLabel kTopologyLabel{"topology measurement"};

// One value of every rank, on every rank.
std::vector<Json> of_all_ranks(Transport& transport, const Json& mine) {
  // Host names may hold bytes that are not UTF-8.
  const std::string text = mine.dump(-1, ' ', false, Json::error_handler_t::replace);
  const auto all = transport.gather(std::as_bytes(std::span(text)), 0, kTopologyLabel);
  std::string list;
  if (transport.rank() == 0) {
    Json values = Json::array();
    for (const auto& bytes : all) {
      values.push_back(parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                                  kTopologyLabel.operation));
    }
    list = values.dump();
  }
  auto length = std::ssize(list);
  transport.broadcast(std::as_writable_bytes(std::span(&length, 1)), 0, kTopologyLabel);
  list.resize(static_cast<std::size_t>(length));
  transport.broadcast(std::as_writable_bytes(std::span(list)), 0, kTopologyLabel);
  return parse_json(list, kTopologyLabel.operation);
}

// Hosts, and of each rank its host and memory.
void find_places(Backend& backend, Transport& transport, Topology& topology) {
  const std::vector<Json> facts =
      of_all_ranks(transport, {{"key", host_key()},
                               {"name", host_name()},
                               {"device", backend.device_id()},
                               {"kind", backend.name() == "cuda" ? "cuda" : "cpu"},
                               {"available", backend.available_bytes()}});
  std::map<std::string, int> hosts;  // by key
  std::set<std::string> names;
  struct Memory {
    double bytes = 0;
    int ranks = 0;
  };
  std::map<std::string, Memory> memories;  // of hosts and devices
  const auto memory_key = [](const Json& fact) {
    return fact.at("key").get<std::string>() + '\n' + fact.at("device").get<std::string>();
  };
  for (const Json& fact : facts) {
    const auto [host, added] =
        hosts.emplace(fact.at("key").get<std::string>(), static_cast<int>(hosts.size()));
    if (added) {
      auto name = fact.at("name").get<std::string>();
      while (name.empty() || !names.insert(name).second) name += '\'';
      topology.hosts.push_back({name, 0, 0});
    }
    Memory& memory = memories[memory_key(fact)];
    const auto bytes = fact.at("available").get<double>();
    memory.bytes = memory.ranks == 0 ? bytes : std::min(memory.bytes, bytes);
    ++memory.ranks;
  }
  for (const Json& fact : facts) {
    Device device;
    device.host = hosts.at(fact.at("key").get<std::string>());
    device.kind = fact.at("kind").get<std::string>();
    const Memory& memory = memories.at(memory_key(fact));
    device.memory_bytes = std::max(1.0, memory.bytes / memory.ranks);
    topology.devices.push_back(std::move(device));
  }
}

// Gives every rank the rates that only their own ranks have measured.
void share_rates(Transport& transport, std::vector<Device>& devices) {
  const auto pairs = [](const std::vector<RateAtColumns>& rates) {
    Json list = Json::array();
    for (const RateAtColumns& rate : rates) list.push_back({rate.columns, rate.per_s});
    return list;
  };
  const auto rates = [](const Json& list) {
    std::vector<RateAtColumns> result;
    for (const Json& pair : list) {
      result.push_back({pair.at(0).get<std::int64_t>(), pair.at(1).get<double>()});
    }
    return result;
  };
  const Device& own = devices[static_cast<std::size_t>(transport.rank())];
  const std::vector<Json> all =
      of_all_ranks(transport, {{"spmm", pairs(own.spmm_bytes_per_s)},
                               {"gemm", pairs(own.gemm_flop_per_s)},
                               {"elementwise", own.elementwise_bytes_per_s},
                               {"quantize", own.quantize_bytes_per_s},
                               {"progress", own.progress_s_per_byte},
                               {"polling", own.polling_share}});
  for (std::size_t rank = 0; rank < devices.size(); ++rank) {
    Device& device = devices[rank];
    device.spmm_bytes_per_s = rates(all[rank].at("spmm"));
    device.gemm_flop_per_s = rates(all[rank].at("gemm"));
    device.elementwise_bytes_per_s = all[rank].at("elementwise").get<double>();
    device.quantize_bytes_per_s = all[rank].at("quantize").get<double>();
    device.progress_s_per_byte = all[rank].at("progress").get<double>();
    device.polling_share = all[rank].at("polling").get<double>();
  }
}

// More digits than a measurement has would only make the file hard to read.
void round_figures(Topology& topology) {
  constexpr int kDigits = 4;
  const auto round = [](double& value, const TopologyUnit& unit) {
    if (std::isfinite(value)) value = unit.rounded(value, kDigits);
  };
  for (Host& host : topology.hosts) {
    round(host.send_bytes_per_s, kMbitPerS);
    round(host.receive_bytes_per_s, kMbitPerS);
  }
  for (Device& device : topology.devices) {
    round(device.memory_bytes, kGib);
    for (RateAtColumns& rate : device.spmm_bytes_per_s) round(rate.per_s, kGbPerS);
    for (RateAtColumns& rate : device.gemm_flop_per_s) round(rate.per_s, kGflopPerS);
    round(device.elementwise_bytes_per_s, kGbPerS);
    round(device.quantize_bytes_per_s, kGbPerS);
    round(device.progress_s_per_byte, kMsPerGb);
    round(device.polling_share, kPercent);
  }
  for (Link& link : topology.links) {
    round(link.latency_s, kMicroseconds);
    round(link.bytes_per_s, kGbitPerS);
  }
}

}  // namespace

Topology probe_topology(Backend& backend, Queue& queue, Transport& transport,
                        DeviceTransport* device, const TopologyProbeOptions& options) {
  Topology topology;
  find_places(backend, transport, topology);
  Device& own = topology.devices[static_cast<std::size_t>(transport.rank())];
  KernelProbe kernels(backend, queue, options.kernels, own.memory_bytes);
  measure_kernels(transport, kernels, options.kernels, own);

  std::vector<int> host_of;
  for (const Device& of_rank : topology.devices) host_of.push_back(of_rank.host);
  TraceRecorder trace(transport.rank());
  Reducer reducer(backend, queue, transport, device, trace);
  const Rank rank{backend, queue, transport, device, trace, reducer};
  NetworkProbe network(rank, host_of, options.network);
  topology.links = network.measure_pairs();
  if (network.skipped_pairs() > 0 && transport.rank() == 0) {
    log::warn(
        "{} of {} pairs of ranks were not measured, because the others took {} s; they count as "
        "those between the same hosts",
        network.skipped_pairs(), transport.size() * (transport.size() - 1),
        options.network.pairs_seconds);
  }
  network.measure_hosts(topology.links, topology.hosts);
  const std::vector<std::int64_t>& columns = options.kernels.columns;
  const ProgressCost progress = network.measure_progress(topology.links, topology.hosts, kernels,
                                                         columns[columns.size() / 2]);
  own.progress_s_per_byte = progress.s_per_byte;
  own.polling_share = progress.polling_share;
  share_rates(transport, topology.devices);
  const std::vector<int> islands = find_islands(host_of, topology.links);
  for (std::size_t r = 0; r < islands.size(); ++r) topology.devices[r].island = islands[r];
  round_figures(topology);
  return topology;
}

}  // namespace atl
