// One rank for tests of exchange and programs.
#pragma once

#include <memory>
#include <string>

#include "engine/exchange/halo_exchange.hpp"
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
        inner_ids(*backend, *queue, local.inner_ids),
        self{.backend = *backend,
             .queue = *queue,
             .transport = wire,
             .device = device.transport.get(),
             .trace = trace,
             .reducer = reducer,
             .inner_ids = inner_ids.span(),
             .nodes = local.inner(),
             .seed = kSeed},
        exchange(make_exact_exchange(self)) {
    wire.all_reduce(std::span(&self.nodes, 1), {"node count"});
  }
  TestRank(const TestRank&) = delete;
  TestRank& operator=(const TestRank&) = delete;

  Transport& transport;
  const LocalGraphView& graph;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Queue> queue;
  DeviceTransportChoice device;
  TraceRecorder trace;
  Reducer reducer;
  ConstDeviceArray<GlobalId> inner_ids;
  Rank self;
  std::unique_ptr<HaloExchange> exchange;
};

}  // namespace atl
