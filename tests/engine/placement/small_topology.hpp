// Machines with round numbers for tests of simulator and search.
#pragma once

#include <fmt/format.h>

#include <vector>

#include "engine/placement/topology.hpp"

namespace atl {

// `hosts` hosts of `ranks_per_host` ranks. Between hosts: a card of `card` bytes/s in each
// direction and `latency` s; inside: 1e9 bytes/s and no latency. Every rank: SpMM 1e9 bytes/s, GEMM
// 1e9 flop/s, elementwise 1e9 and quantize 1e9 bytes/s, transfers cost no computing.
inline Topology small_topology(int hosts, int ranks_per_host, double card, double latency = 0) {
  Topology topology;
  for (int h = 0; h < hosts; ++h) topology.hosts.push_back({fmt::format("h{}", h), card, card});
  for (int r = 0; r < hosts * ranks_per_host; ++r) {
    Device device;
    device.host = device.island = r / ranks_per_host;
    device.memory_bytes = 1e9;
    device.spmm_bytes_per_s = {{64, 1e9}};
    device.gemm_flop_per_s = {{64, 1e9}};
    device.elementwise_bytes_per_s = 1e9;
    device.quantize_bytes_per_s = 1e9;
    topology.devices.push_back(device);
  }
  for (const Device& from : topology.devices) {
    for (const Device& to : topology.devices) {
      const bool inside = from.host == to.host;
      topology.links.push_back(inside ? Link{0, 1e9} : Link{latency, card});
    }
  }
  return topology;
}

}  // namespace atl
