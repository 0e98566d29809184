// Streams and events: queues of work that is executed only when something needs it. All functions
// here want the emulator's lock held.
#pragma once

#include <cuda_runtime.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "tests/support/cuda_emulation/runtime.hpp"

namespace atl::cuda_emulation {

struct Capture;

// One piece of work of a stream.
class Operation : public std::enable_shared_from_this<Operation> {
 public:
  virtual ~Operation() = default;
  // Called once when the operation enters `stream` as its item number `item`.
  virtual void start(Stream& /*stream*/, std::uint64_t /*item*/) {}
  // Goes on as far as is possible without waiting; true when the work is complete. Called again
  // until then. May release the lock for a while.
  virtual bool run(Lock& lock) = 0;
  // The operation that a replayed graph runs instead: this one itself unless it has state.
  virtual std::shared_ptr<Operation> copy_for_replay() { return shared_from_this(); }
};

// Work on device memory that never waits; left out once the device has a sticky error.
class DeviceOperation : public Operation {
 public:
  DeviceOperation(Device& device, std::function<void()> work)
      : device_(device), work_(std::move(work)) {}
  bool run(Lock& lock) override;

 private:
  Device& device_;
  std::function<void()> work_;
};

// Complete when `stream` has completed its item number `item`.
class WaitOperation : public Operation {
 public:
  WaitOperation(std::shared_ptr<Stream> stream, std::uint64_t item)
      : stream_(std::move(stream)), item_(item) {}
  bool run(Lock& lock) override;

 private:
  std::shared_ptr<Stream> stream_;
  std::uint64_t item_;
};

// Where an event was recorded last.
struct Record {
  std::shared_ptr<Stream> stream;
  std::uint64_t item = 0;
  bool asked = false;  // a query has already been answered with "not ready"
  std::chrono::steady_clock::time_point when;
};

class RecordOperation : public Operation {
 public:
  explicit RecordOperation(std::shared_ptr<Record> record) : record_(std::move(record)) {}
  bool run(Lock& lock) override;

 private:
  std::shared_ptr<Record> record_;
};

// The stream that a handle names, the current device's null stream for the null handle; null if
// there is no such stream.
Stream* find_stream(cudaStream_t handle);

// Appends to the stream, or to the graph that it captures. `item` receives the operation's number
// in the stream, unless it was captured.
cudaError_t enqueue(Stream& stream, std::shared_ptr<Operation> operation, Lock& lock,
                    std::uint64_t* item = nullptr);
cudaError_t enqueue(Stream& stream, std::function<void()> work, Lock& lock);

// Executes the stream's work up to and including item number `item`, and what that needs of other
// streams, without waiting; true if it is complete now.
bool advance(Stream& stream, std::uint64_t item, Lock& lock);

// advance() and wait until complete.
void finish(Stream& stream, std::uint64_t item, Lock& lock);

}  // namespace atl::cuda_emulation

struct CUstream_st : std::enable_shared_from_this<CUstream_st> {
  atl::cuda_emulation::Device* device = nullptr;
  bool blocking = true;  // with respect to the null stream
  std::deque<std::shared_ptr<atl::cuda_emulation::Operation>> queue;
  std::uint64_t issued = 0;     // items ever appended
  std::uint64_t completed = 0;  // items executed
  std::uint64_t asked = 0;      // the last item for which a query was answered with "not ready"
  bool busy = false;            // some call is executing it

  std::shared_ptr<atl::cuda_emulation::Capture> capture;  // null unless capturing
  std::vector<std::size_t> frontier;  // captured nodes that the next one depends on
};

struct CUevent_st {
  int device = 0;
  bool timing = true;
  std::shared_ptr<atl::cuda_emulation::Record> record;    // null until recorded
  std::shared_ptr<atl::cuda_emulation::Capture> capture;  // where it was recorded last, if captured
  std::vector<std::size_t> frontier;
};
