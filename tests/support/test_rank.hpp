// One rank's context for tests of exchange and layers.
#pragma once

#include <memory>
#include <string>

#include "engine/exchange/aggregate.hpp"
#include "kernels/registry.hpp"

namespace atl {

struct TestRank {
  TestRank(Transport& wire, const LocalGraphView& local, const std::string& backend_name)
      : transport(wire),
        graph(local),
        backend(make_backend(backend_name, {1, -1})),
        queue(backend->make_queue()),
        trace(wire.rank()),
        reducer(*backend, *queue, wire, trace),
        exchange(make_exact_exchange(*backend, *queue, wire, trace)) {}

  RankContext context(bool overlap = true, bool training = true, int epoch = 1) {
    return {*backend,        *queue, *exchange, reducer,  trace,
            graph.inner_ids, 7,      overlap,   training, epoch};
  }

  Transport& transport;
  const LocalGraphView& graph;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Queue> queue;
  TraceRecorder trace;
  Reducer reducer;
  std::unique_ptr<HaloExchange> exchange;
};

}  // namespace atl
