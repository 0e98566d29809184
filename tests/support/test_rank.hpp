// One rank's context for tests of exchange and layers.
#pragma once

#include <memory>
#include <string>

#include "engine/exchange/aggregate.hpp"
#include "kernels/registry.hpp"

namespace atl {

struct TestRank {
  // The wire's rank chooses the device of a backend that has several.
  TestRank(Transport& wire, const LocalGraphView& local, const std::string& backend_name,
           const std::string& messages = "auto")
      : transport(wire),
        graph(local),
        backend(make_backend(backend_name, {.threads = 1, .local_rank = wire.rank()})),
        queue(backend->make_queue()),
        device(make_device_transport(messages, wire, *backend)),
        trace(wire.rank()),
        reducer(*backend, *queue, wire, device.transport.get(), trace),
        exchange(make_exact_exchange({*backend, *queue, wire, device.transport.get(), trace})),
        inner_ids(*backend, *queue, local.inner_ids),
        nodes(local.inner()) {
    wire.all_reduce(std::span(&nodes, 1), {"node count"});
  }

  RankContext context(bool overlap = true, bool training = true, int epoch = 1) {
    return {.backend = *backend,
            .queue = *queue,
            .exchange = *exchange,
            .reducer = reducer,
            .trace = trace,
            .inner_ids = inner_ids.span(),
            .nodes = nodes,
            .seed = 7,
            .overlap = overlap,
            .training = training,
            .epoch = epoch};
  }

  Transport& transport;
  const LocalGraphView& graph;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Queue> queue;
  DeviceTransportChoice device;
  TraceRecorder trace;
  Reducer reducer;
  std::unique_ptr<HaloExchange> exchange;
  ConstDeviceArray<GlobalId> inner_ids;
  std::int64_t nodes;  // of all ranks
};

}  // namespace atl
