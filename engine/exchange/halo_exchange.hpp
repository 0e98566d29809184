// Halo exchange: the rows that cross the cut, in either direction. Both directions pull: forward
// fetches rows of remote in-neighbours, backward fetches gradient rows of remote out-neighbours.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/trace.hpp"
#include "engine/comm/device_transport.hpp"
#include "engine/exchange/distributed_operator.hpp"

namespace atl {

// All messages of one layer and direction.
struct Channel {
  int layer = 0;
  Direction direction = Direction::kForward;
};

// One exchange under way.
class PendingExchange {
 public:
  virtual ~PendingExchange() = default;
  // Returns when work queued afterwards will find the halo rows there. May be called again: does
  // nothing then.
  virtual void finish() = 0;
};

// A way for messages to travel (an exchange mode). A mode may leave halo rows as an earlier epoch
// left them; `exact` refreshes all of them every time.
class HaloExchange {
 public:
  virtual ~HaloExchange() = default;
  virtual std::string name() const = 0;
  // Packs the rows of x that other ranks need, times op.message_scale, and posts the transfer.
  // x [inner + halo, F]: inner rows that are sent must be final; halo rows are written until
  // finish() returns. One exchange per channel may be under way.
  virtual std::unique_ptr<PendingExchange> begin(const DistributedOperator& op, MatrixView x,
                                                 Channel channel, int epoch) = 0;
  // Owner of the memory that every x lies in. Should an error abandon an exchange, the transport
  // holds on to it, so that a late message can't land in memory that was given back.
  virtual void keep_alive(std::shared_ptr<const void> memory) = 0;
  // Bytes of buffers that begin() will hold for rows of `width` elements in direction of `op`.
  virtual std::int64_t buffer_bytes(const DistributedOperator& op, std::int64_t width,
                                    DType dtype) const = 0;
};

struct ExchangeOptions {
  std::string mode = "exact";
};

// What messages are made with and travel on. All of it must outlive the exchange.
struct ExchangeRoute {
  Backend& backend;
  Queue& queue;  // of the computation
  Transport& transport;
  DeviceTransport* device;  // null: none
  TraceRecorder& trace;
};

// Throws Error{kOption} listing the valid modes.
std::unique_ptr<HaloExchange> make_exchange(const ExchangeOptions& options,
                                            const ExchangeRoute& route);
std::vector<std::string> exchange_modes();

std::unique_ptr<HaloExchange> make_exact_exchange(const ExchangeRoute& route);

}  // namespace atl
