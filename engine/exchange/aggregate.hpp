// The aggregate schedule: y = S x across ranks, with the work of a layer arranged around it so that
// everything which needs no message hides the wire. This is the only place that orders
// communication and computation.
#pragma once

#include <functional>

#include "engine/exchange/halo_exchange.hpp"
#include "engine/exchange/reduce.hpp"

namespace atl {

// What the operations of one rank run on and report to.
struct RankContext {
  Backend& backend;
  Queue& queue;
  HaloExchange& exchange;
  Reducer& reducer;
  TraceRecorder& trace;
  std::span<const GlobalId> inner_ids;  // backend memory; keys the random numbers
  std::int64_t nodes = 0;               // of the whole graph
  const EpochState* state = nullptr;    // backend memory, or null: `epoch` alone counts
  std::uint64_t seed = 0;
  bool overlap = true;   // false: wait for messages before any central work, same numbers
  bool training = true;  // false: no dropout, batch norm by running statistics
  int epoch = 0;
};

// The layer's own work on a range of inner rows: `prepare` computes what must exist before rows of
// x are sent or read, `complete` what follows once rows of y are there. The rest is fused into the
// SpMM of the range: see Backend::spmm.
struct AggregateStages {
  std::function<void(RowRange)> prepare;
  std::function<void(RowRange)> complete;
  double beta = 0;  // 1: `prepare` has put something into y to add to
  std::function<Epilogue(RowRange)> epilogue = [](RowRange) { return Epilogue{}; };
};

// y = epilogue(beta * y + S x) for inner rows. x [inner + halo, F], y [inner, F]. Throws what the
// transport throws.
void aggregate(const RankContext& context, const DistributedOperator& op, Channel channel,
               MatrixView x, MatrixView y, const AggregateStages& stages);

}  // namespace atl
