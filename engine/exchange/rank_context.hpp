// What the operations of one rank run on and report to.
#pragma once

#include "engine/exchange/halo_exchange.hpp"
#include "engine/exchange/reduce.hpp"

namespace atl {

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

}  // namespace atl
