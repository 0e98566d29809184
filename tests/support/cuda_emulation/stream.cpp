#include "tests/support/cuda_emulation/stream.hpp"

#include <utility>

#include "tests/support/cuda_emulation/capture.hpp"
#include "tests/support/cuda_emulation/memory.hpp"

namespace atl::cuda_emulation {
namespace {

// Device memory stays readable from the first operation that needs it to the end of the outermost
// advance() of the thread.
thread_local int advance_depth = 0;

cudaError_t append(Stream& stream, std::shared_ptr<Operation> operation) {
  stream.queue.push_back(operation);
  ++stream.issued;
  operation->start(stream, stream.issued);
  runtime().changed.notify_all();
  return cudaSuccess;
}

// The null stream waits for all blocking streams of its device, and these wait for it.
cudaError_t order_with_null_stream(Stream& stream) {
  Device& device = *stream.device;
  if (&stream == device.null_stream.get()) {
    for (const auto& other : device.streams) {
      if (other.get() == &stream || !other->blocking) continue;
      if (other->capture) return invalidate(*other->capture, cudaErrorStreamCaptureImplicit);
      if (other->completed < other->issued) {
        append(stream, std::make_shared<WaitOperation>(other, other->issued));
      }
    }
  } else if (stream.blocking) {
    const auto& other = device.null_stream;
    if (other->completed < other->issued) {
      append(stream, std::make_shared<WaitOperation>(other, other->issued));
    }
  }
  return cudaSuccess;
}

}  // namespace

bool DeviceOperation::run(Lock&) {
  if (device_.sticky != cudaSuccess) return true;
  memory().open();
  work_();
  return true;
}

bool WaitOperation::run(Lock& lock) { return advance(*stream_, item_, lock); }

bool RecordOperation::run(Lock&) {
  record_->when = std::chrono::steady_clock::now();
  return true;
}

Stream* find_stream(cudaStream_t handle) {
  if (handle == nullptr) return current_device().null_stream.get();
  for (const auto& device : runtime().devices) {
    for (const auto& stream : device->streams) {
      if (stream.get() == handle && stream != device->null_stream) return handle;
    }
  }
  return nullptr;
}

cudaError_t enqueue(Stream& stream, std::shared_ptr<Operation> operation, Lock& lock,
                    std::uint64_t* item) {
  if (stream.capture) return capture_operation(stream, std::move(operation));
  const cudaError_t error = order_with_null_stream(stream);
  if (error != cudaSuccess) return error;
  append(stream, std::move(operation));
  if (item != nullptr) *item = stream.issued;
  if (!runtime().lazy) advance(stream, stream.issued, lock);
  return cudaSuccess;
}

cudaError_t enqueue(Stream& stream, std::function<void()> work, Lock& lock) {
  return enqueue(stream, std::make_shared<DeviceOperation>(*stream.device, std::move(work)), lock);
}

bool advance(Stream& stream, std::uint64_t item, Lock& lock) {
  if (stream.completed >= item) return true;
  if (stream.busy) return false;  // another thread, or a caller of this call, works on it
  const auto alive = stream.shared_from_this();
  stream.busy = true;
  ++advance_depth;
  bool progress = false;
  while (stream.completed < item && stream.queue.front()->run(lock)) {
    stream.queue.pop_front();
    ++stream.completed;
    progress = true;
  }
  if (--advance_depth == 0) memory().close();
  stream.busy = false;
  if (stream.completed == stream.issued) stream.device->orphans.erase(alive);
  if (progress) runtime().changed.notify_all();
  return stream.completed >= item;
}

void finish(Stream& stream, std::uint64_t item, Lock& lock) {
  const auto alive = stream.shared_from_this();
  while (!advance(stream, item, lock)) runtime().changed.wait(lock);
}

}  // namespace atl::cuda_emulation
