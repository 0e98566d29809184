// Moves bytes between the memories of devices without the host (NCCL). It is the data plane beside
// a Transport, which stays the control plane: start-up, agreement, metrics, errors.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/comm/transport.hpp"
#include "kernels/backend.hpp"

namespace atl {

class DeviceTransport {
 public:
  DeviceTransport(int rank, int size) : rank_(rank), size_(size) {}
  // Meets the other ranks, but never waits for longer than the transport's timeout; during
  // exception unwinding it waits for nobody. Every Recording that holds transfers is destroyed
  // before, and so are the transports of groups, in the same order on all their members.
  virtual ~DeviceTransport() = default;
  virtual std::string name() const = 0;  // "nccl"

  // Where transfers run, one after another in the order of the calls: the same order on every rank,
  // or two collectives deadlock. Work on it orders with other queues by Backend::wait_for.
  virtual Queue& queue() = 0;

  // Queues a transfer of sends[r] to rank r and of receives[r] from it, for all r, as one group.
  // Spans are device memory and stay in use until the queue has run; empty spans send nothing;
  // sizes match pairwise, also of what a rank sends to itself. May be recorded. Throws
  // Error{kCommunication}, and Error{kTimeout} if the group can't be queued.
  void all_to_all_v(const std::vector<std::span<const std::byte>>& sends,
                    const std::vector<std::span<std::byte>>& receives, const OperationLabel& label);

  // Blocks the host until `queue`, which may depend on transfers, is empty. Throws Error{kTimeout}
  // naming the oldest transfer still under way when no transfer has ended for the transport's
  // timeout, Error{kCommunication} with the library's text when a transfer failed or another rank
  // did, and Error{kDevice} for errors of the device. The communicator is aborted before, so that
  // the queues run empty, and every later call throws Error{kCommunication}.
  virtual void wait(Queue& queue) = 0;

  // The data plane of a group. All ranks call it, each with what Transport::split of this one's
  // Transport gave it, which must outlive the result; null gets null. Groups share the queue, so
  // the order of the calls is one for all of them and the job: ranks that share two transports
  // queue the transfers of both in the same order. An error ends all of them. Waits for the queue.
  // Throws Error{kCommunication} where the library is too old for it, and as a transfer does.
  std::unique_ptr<DeviceTransport> split(Transport* group);

  // Payload bytes of all_to_all_v of this rank and its groups, recorded ones counted once.
  std::int64_t bytes_sent() const { return bytes_sent_; }
  // For transfers that a recording has queued again.
  void add_bytes_sent(std::int64_t bytes);

 private:
  virtual std::unique_ptr<DeviceTransport> do_split(Transport* group) = 0;
  virtual void do_all_to_all_v(const std::vector<std::span<const std::byte>>& sends,
                               const std::vector<std::span<std::byte>>& receives,
                               const OperationLabel& label) = 0;

  int rank_;
  int size_;
  std::int64_t bytes_sent_ = 0;
  DeviceTransport* parent_ = nullptr;  // what this group was split from
};

// How messages between the ranks' devices travel, and why.
struct DeviceTransportChoice {
  std::unique_ptr<DeviceTransport> transport;  // null: through staging memory and the Transport
  std::string reason;                          // one sentence for logs and `atoll doctor`
};

// choice: auto | nccl | staging, the same on all ranks (--transport; local and mpi mean staging).
// Collective over `transport`, the job's: all ranks get the same kind, and groups are split from
// it. `nccl` throws Error{kOption} with the reason where it can't serve (a rank whose backend is no
// CUDA device, two ranks on one device, a build without NCCL); `auto` falls back to staging and
// says why. Once NCCL was chosen its failures are errors: Error{kCommunication} or Error{kTimeout}.
// backend and transport must outlive the result.
DeviceTransportChoice make_device_transport(const std::string& choice, Transport& transport,
                                            Backend& backend);

// The seam of the NCCL library, which is loaded when it is first asked for; a stub where the build
// has none. Where it is absent nccl_absence() says why, in a clause; its version is empty then, and
// the rest throws Error{kCommunication}. `id` comes from nccl_unique_id() of rank 0.
std::string nccl_absence();
std::string nccl_version();
std::vector<std::byte> nccl_unique_id();
std::unique_ptr<DeviceTransport> make_nccl_transport(Transport& transport, Backend& backend,
                                                     std::span<const std::byte> id);

}  // namespace atl
