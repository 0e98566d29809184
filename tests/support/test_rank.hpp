// One rank's context for tests of exchange and programs.
#pragma once

#include <memory>
#include <string>

#include "engine/exchange/rank_context.hpp"
#include "kernels/registry.hpp"

namespace atl {

struct TestRank {
  static constexpr std::uint64_t kSeed = 7;

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

  // What this rank's ways of exchange are made with.
  ExchangeRoute route(bool overlap = true) {
    return {.backend = *backend,
            .queue = *queue,
            .transport = transport,
            .device = device.transport.get(),
            .trace = trace,
            .seed = kSeed,
            .inner_ids = inner_ids.span(),
            .overlap = overlap};
  }

  RankContext context(bool overlap = true, bool training = true, int epoch = 1) {
    return {.backend = *backend,
            .queue = *queue,
            .exchange = *exchange,
            .reducer = reducer,
            .trace = trace,
            .inner_ids = inner_ids.span(),
            .nodes = nodes,
            .seed = kSeed,
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
