// Packets of measurements: they lie where packets of an exchange lie, and travel the same way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/exchange/halo_exchange.hpp"

namespace atl {

class TimedTransfer {
 public:
  // Room for `send_bytes` and `receive_bytes` in all packets of one transfer together. What they
  // hold is not defined. Every rank needs one.
  TimedTransfer(const Rank& rank, std::int64_t send_bytes, std::int64_t receive_bytes);

  // Posts a packet of sends[r] bytes to rank r and of receives[r] bytes from it, for all r. One at
  // a time. Every rank takes part, also with nothing to send. On devices all packets count as
  // arrived when the last has: more can't be seen.
  std::unique_ptr<PendingTransfer> post(std::span<const std::int64_t> sends,
                                        std::span<const std::int64_t> receives);

  // Seconds from a common start until the packet of each rank had come, 0 where there was none. The
  // ranks start within a barrier's latency of each other.
  std::vector<double> time(std::span<const std::int64_t> sends,
                           std::span<const std::int64_t> receives);

 private:
  // Memory on the device with a device transport, else on the host.
  struct Buffer {
    Buffer(const Rank& rank, std::int64_t bytes);
    std::span<std::byte> span() {
      return {host.empty() ? static_cast<std::byte*>(device.get()) : host.data(), bytes};
    }
    std::size_t bytes;
    std::vector<std::byte> host;
    DeviceMemory device;
  };

  struct Buffers {
    Buffer out;
    Buffer in;
  };

  const Rank& rank_;
  // Shared with transfers: a late message of one that an error abandoned finds its memory.
  std::shared_ptr<Buffers> buffers_;
};

}  // namespace atl
