#include "engine/placement/topology_probe.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "base/host.hpp"
#include "base/log.hpp"
#include "engine/comm/rank_texts.hpp"
#include "engine/placement/topology_format.hpp"

namespace atl {

namespace {

constexpr OperationLabel kTopologyLabel{"topology measurement"};

// One value of every rank, on every rank.
std::vector<Json> of_all_ranks(Transport& transport, const Json& mine) {
  // Host names may hold bytes that are not UTF-8.
  const std::string text = mine.dump(-1, ' ', false, Json::error_handler_t::replace);
  Json values = Json::array();
  for (const std::string& value : gather_texts(transport, text, kTopologyLabel)) {
    values.push_back(parse_json(value, kTopologyLabel.operation));
  }
  std::string list = values.dump();
  share_text(transport, list, kTopologyLabel);
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
  const Device own = devices[static_cast<std::size_t>(transport.rank())];
  Json figures = Json::array();
  for_each_figure(own, [&](double value, const TopologyUnit&) { figures.push_back(value); });
  const std::vector<Json> all = of_all_ranks(transport, figures);
  for (std::size_t rank = 0; rank < devices.size(); ++rank) {
    // All ranks measure at the same numbers of columns.
    devices[rank].spmm_bytes_per_s = own.spmm_bytes_per_s;
    devices[rank].gemm_flop_per_s = own.gemm_flop_per_s;
    std::size_t next = 0;
    for_each_figure(devices[rank], [&](double& value, const TopologyUnit&) {
      value = all[rank].at(next++).get<double>();
    });
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
  for (Device& device : topology.devices) for_each_figure(device, round);
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

  TraceRecorder trace(transport.rank());
  Reducer reducer(backend, queue, transport, device, trace);
  const Rank rank{backend, queue, transport, device, trace, reducer};
  NetworkProbe network(rank, topology, options.network);
  network.measure_pairs();
  if (network.skipped_pairs() > 0 && transport.rank() == 0) {
    log::warn(
        "{} of {} pairs of ranks were not measured, because the others took {} s; they count as "
        "those between the same hosts",
        network.skipped_pairs(), transport.size() * (transport.size() - 1),
        options.network.pairs_seconds);
  }
  network.measure_hosts();
  const std::vector<std::int64_t>& columns = options.kernels.columns;
  const ProgressCost progress = network.measure_progress(kernels, columns[columns.size() / 2]);
  own.progress_s_per_byte = progress.s_per_byte;
  own.polling_share = progress.polling_share;
  share_rates(transport, topology.devices);
  find_islands(topology);
  round_figures(topology);
  return topology;
}

}  // namespace atl
