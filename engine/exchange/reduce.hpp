// Sums over the ranks of a transport, the job's or a group's, for code that must not know it
// (programs, loss, metrics).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/trace.hpp"
#include "engine/comm/device_transport.hpp"
#include "engine/exchange/gradient_steps.hpp"
#include "engine/tensor/tensor.hpp"

namespace atl {

// Every sum is the same bits on every rank: it is added in rank order, in double. Those of `route`
// by another way than an all-reduce are rounded as it says.
class Reducer {
 public:
  // device: null where there is none; of a group, what DeviceTransport::split made. Everything must
  // outlive it. `route`: of sums of matrices; its ranks are those of `transport`.
  Reducer(Backend& backend, Queue& queue, Transport& transport, DeviceTransport* device,
          TraceRecorder& trace, SumRoute route = {})
      : backend_(backend),
        queue_(queue),
        transport_(transport),
        device_(device),
        trace_(trace),
        route_(std::move(route)) {}

  // For all later sums of matrices. No sum may be under way.
  void set_route(SumRoute route) { route_ = std::move(route); }
  const SumRoute& route() const { return route_; }

  // In-place sums in the backend's memory, ordered on the queue; `what` (a literal) names them in
  // traces and time-outs. The host waits only where a sum passes through its memory.
  void sum(std::span<double> values, const char* what, int layer, int epoch);
  void sum(MatrixView values, const char* what, int epoch);  // f32 or f64, stored without gaps
  // Whether sums of values of this type can go on beside computing: the hosts of all ranks must see
  // them, and there must be other ranks. If so, makes a transport for each of so many. Collective.
  bool prepare_sums(std::size_t count, DType dtype);
  // Begins the sum of a part of a row of f32 values, the next of those prepared, which
  // finish_sums() ends. Until then nobody may write the part.
  void begin_sum(MatrixView part, const char* what, int epoch);
  // Lets those that were begun go on as far as they can without waiting.
  void advance_sums();
  // Ends them and sums `rest`. The bits are those of one sum of all.
  void finish_sums(MatrixView rest, const char* what, int epoch);
  // Gives them up, on the way of an error.
  void abandon_sums() { begun_.clear(); }

  // In-place sum of a host array, done on return.
  void sum_host(std::span<std::int64_t> values, const char* what, int epoch);

  // Blocks the host until everything queued has run, transfers included.
  void synchronize();

 private:
  // Tells a span of the trace the name of a sum and the bytes that this rank sends for it and for
  // those that were begun.
  void describe(ScopedSpan& span, const char* what, std::int64_t count, std::int64_t value_bytes,
                const SumRoute& route = {}, std::int64_t begun_bytes = 0) const;
  void sum_flat(MatrixView values, const SumRoute& route, const OperationLabel& label);
  void sum_on_host(MatrixView values, const SumRoute& route, const OperationLabel& label);
  void sum_through_staging(MatrixView values, const SumRoute& route, const OperationLabel& label);
  void sum_on_device(MatrixView values, const SumRoute& route, const OperationLabel& label);
  void run_on_device(const SumStep& step, MatrixView values, const OperationLabel& label);

  Backend& backend_;
  Queue& queue_;
  Transport& transport_;
  DeviceTransport* device_;
  TraceRecorder& trace_;
  SumRoute route_;
  std::vector<std::unique_ptr<Transport>> own_transports_;  // of sums that are begun
  std::vector<std::unique_ptr<PendingSum>> begun_;
  GrowingMemory<allocate_staging> staging_;
  GrowingMemory<allocate_device> parts_;  // own block of every member of a step
};

}  // namespace atl
