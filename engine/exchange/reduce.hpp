// Sums over all ranks for code that must not know a transport (layers, loss, metrics).
#pragma once

#include <cstdint>
#include <span>

#include "base/trace.hpp"
#include "engine/comm/transport.hpp"
#include "kernels/backend.hpp"

namespace atl {

// Every sum is the same bits on every rank: it is added in rank order.
class Reducer {
 public:
  Reducer(Backend& backend, Queue& queue, Transport& transport, TraceRecorder& trace)
      : backend_(backend), queue_(queue), transport_(transport), trace_(trace) {}

  // In-place sums of host arrays; `what` (a literal) names them in traces and time-outs.
  void sum(std::span<double> values, const char* what, int layer, int epoch);
  void sum(std::span<std::int64_t> values, const char* what, int layer, int epoch);
  // In-place sum of a matrix in the backend's memory, stored without gaps.
  void sum(MatrixView values, const char* what, int epoch);

 private:
  Backend& backend_;
  Queue& queue_;
  Transport& transport_;
  TraceRecorder& trace_;
};

}  // namespace atl
