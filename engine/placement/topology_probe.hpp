// Measures the machine that a job runs on: `atoll topology probe`.
#pragma once

#include "engine/comm/device_transport.hpp"
#include "engine/placement/kernel_probe.hpp"
#include "engine/placement/network_probe.hpp"
#include "engine/placement/topology.hpp"

namespace atl {

struct TopologyProbeOptions {
  KernelProbeOptions kernels;
  NetworkProbeOptions network;
};

// Collective; the same result on every rank, with numbers of four digits, so that the file written
// from it reads back to the very same topology. device: null without one. Takes half a minute and,
// for every pair of ranks, up to a second or two on a slow network; rank 0 warns of pairs there was
// no time for. Throws Error{kMemory}, Error{kCommunication}, Error{kTimeout}.
Topology probe_topology(Backend& backend, Queue& queue, Transport& transport,
                        DeviceTransport* device, const TopologyProbeOptions& options);

}  // namespace atl
