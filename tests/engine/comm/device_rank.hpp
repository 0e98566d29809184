// Ranks as threads with a CUDA device each, and memory on them, for tests of device transports.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/comm/device_transport.hpp"
#include "kernels/registry.hpp"

namespace atl {

// Bytes on a device.
class DeviceBytes {
 public:
  DeviceBytes(Backend& backend, Queue& queue, const std::vector<std::byte>& contents)
      : backend_(backend), size_(contents.size()) {
    memory_ = static_cast<std::byte*>(backend.allocate(std::ssize(contents)));
    if (size_ > 0) upload(queue, contents);
  }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  ~DeviceBytes() { backend_.release(memory_); }

  std::span<std::byte> span() const { return {memory_, size_}; }
  // Queued before it returns; `contents` may then change.
  void upload(Queue& queue, const std::vector<std::byte>& contents) {
    backend_.copy(queue, memory_, contents.data(), std::ssize(contents), CopyKind::kHostToDevice);
  }
  // Waits for the queue.
  std::vector<std::byte> download(Queue& queue) const {
    std::vector<std::byte> contents(size_);
    if (size_ == 0) return contents;
    backend_.copy(queue, contents.data(), memory_, std::ssize(contents), CopyKind::kDeviceToHost);
    backend_.synchronize(queue);
    return contents;
  }

 private:
  Backend& backend_;
  std::size_t size_;
  std::byte* memory_ = nullptr;
};

struct DeviceRank {
  DeviceRank(Transport& wire, int device_index)
      : transport(wire),
        rank(wire.rank()),
        size(wire.size()),
        backend(make_backend("cuda", {.threads = 1, .device = device_index})),
        compute(backend->make_queue()) {}

  void connect() {
    choice = make_device_transport("nccl", transport, *backend);
    device = choice.transport.get();
  }
  std::unique_ptr<DeviceBytes> bytes(const std::vector<std::byte>& contents) {
    auto made = std::make_unique<DeviceBytes>(*backend, *compute, contents);
    backend->synchronize(*compute);
    return made;
  }
  std::unique_ptr<DeviceBytes> bytes(std::size_t count, int value) {
    return bytes(std::vector<std::byte>(count, static_cast<std::byte>(value)));
  }
  // A transfer of `sent` to rank `to`, and into `received` from rank `from`.
  void shift(int to, const DeviceBytes& sent, int from, DeviceBytes& received,
             const OperationLabel& label) {
    std::vector<std::span<const std::byte>> sends(static_cast<std::size_t>(size));
    std::vector<std::span<std::byte>> receives(static_cast<std::size_t>(size));
    sends[static_cast<std::size_t>(to)] = sent.span();
    receives[static_cast<std::size_t>(from)] = received.span();
    device->all_to_all_v(sends, receives, label);
  }
  int next() const { return (rank + 1) % size; }
  int previous() const { return (rank + size - 1) % size; }

  Transport& transport;
  int rank;
  int size;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Queue> compute;
  DeviceTransportChoice choice;
  DeviceTransport* device = nullptr;  // after connect()
};

// Runs body on `ranks` ranks, rank r with device r and connected by NCCL.
inline void run_devices(int ranks, double timeout_seconds,
                        const std::function<void(DeviceRank&)>& body) {
  run_local_ranks(ranks, timeout_seconds, [&](Transport& transport) {
    DeviceRank rank(transport, transport.rank());
    rank.connect();
    body(rank);
  });
}

}  // namespace atl
