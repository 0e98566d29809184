// The CUDA functions for streams, events, host functions and waiting.
#include <cuda_runtime.h>

#include <set>
#include <utility>

#include "tests/support/cuda_emulation/capture.hpp"
#include "tests/support/cuda_emulation/host_functions.hpp"
#include "tests/support/cuda_emulation/runtime.hpp"
#include "tests/support/cuda_emulation/stream.hpp"

using namespace atl::cuda_emulation;

namespace {

constexpr int kLeastPriority = 0;
constexpr int kGreatestPriority = -5;

std::set<CUevent_st*>& events() {
  static auto* const all = new std::set<CUevent_st*>;
  return *all;
}

bool exists(cudaEvent_t event) { return events().contains(event); }

// A query's answer. The first one for some work is always "not ready": nothing has asked for it
// yet.
cudaError_t query(Stream& stream, std::uint64_t item, bool asked_before, Lock& lock) {
  if (stream.completed >= item) return cudaSuccess;
  if (runtime().lazy && !asked_before) return cudaErrorNotReady;
  return advance(stream, item, lock) ? cudaSuccess : cudaErrorNotReady;
}

// Work that everything in the stream so far precedes: the stream's last item, or a new one where
// the null stream has to wait for others first.
cudaError_t last_item(Stream& stream, std::uint64_t& item, Lock& lock) {
  item = stream.issued;
  if (&stream != stream.device->null_stream.get()) return cudaSuccess;
  return enqueue(stream, std::make_shared<RecordOperation>(std::make_shared<Record>()), lock,
                 &item);
}

cudaError_t wait_for_event(Stream& stream, CUevent_st& event, Lock& lock) {
  if (stream.capture || event.capture) return capture_wait(stream, event);
  if (!event.record) return cudaSuccess;
  const Record& record = *event.record;
  if (record.stream->completed >= record.item) return cudaSuccess;
  return enqueue(stream, std::make_shared<WaitOperation>(record.stream, record.item), lock);
}

}  // namespace

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* handle, unsigned int flags, int) {
  return api([&](Lock&) {
    if (flags != cudaStreamDefault && flags != cudaStreamNonBlocking) return cudaErrorInvalidValue;
    auto stream = std::make_shared<Stream>();
    stream->device = &current_device();
    stream->blocking = flags == cudaStreamDefault;
    *handle = stream.get();
    current_device().streams.insert(std::move(stream));
    return cudaSuccess;
  });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* handle, unsigned int flags) {
  return cudaStreamCreateWithPriority(handle, flags, kLeastPriority);
}

cudaError_t cudaStreamCreate(cudaStream_t* handle) {
  return cudaStreamCreateWithPriority(handle, cudaStreamDefault, kLeastPriority);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return api([&](Lock&) {
    *least = kLeastPriority;
    *greatest = kGreatestPriority;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return api([&](Lock&) {
    Stream* const stream = handle == nullptr ? nullptr : find_stream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (stream->capture) {
      invalidate(*stream->capture, cudaSuccess);
      stream->capture->members.erase(stream);
    }
    const auto kept = stream->shared_from_this();
    kept->device->streams.erase(kept);
    if (kept->completed < kept->issued) kept->device->orphans.insert(kept);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return api([&](Lock& lock) {
    Stream* const stream = find_stream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (stream->capture) return invalidate(*stream->capture, cudaErrorStreamCaptureUnsupported);
    std::uint64_t item = 0;
    const cudaError_t error = last_item(*stream, item, lock);
    if (error != cudaSuccess) return error;
    Device& device = *stream->device;
    ++runtime().host_waits;
    finish(*stream, item, lock);
    return device.sticky;
  });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return api([&](Lock& lock) {
    Stream* const stream = find_stream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (stream->capture) return invalidate(*stream->capture, cudaErrorStreamCaptureUnsupported);
    const std::uint64_t item = stream->issued;
    const bool asked = stream->asked >= item;
    stream->asked = item;
    const cudaError_t answer = query(*stream, item, asked, lock);
    return stream->device->sticky != cudaSuccess ? stream->device->sticky : answer;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return api([&](Lock& lock) {
    Device& device = current_device();
    for (const auto& stream : device.streams) {
      if (stream->capture) return invalidate(*stream->capture, cudaErrorStreamCaptureUnsupported);
    }
    ++runtime().host_waits;
    // Copies, because both sets may change while a stream waits for others.
    auto streams = device.streams;
    streams.insert(device.orphans.begin(), device.orphans.end());
    for (const auto& stream : streams) finish(*stream, stream->issued, lock);
    return device.sticky;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned int flags) {
  return api([&](Lock& lock) {
    Stream* const stream = find_stream(handle);
    if (stream == nullptr || !exists(event)) return cudaErrorInvalidResourceHandle;
    if (flags != cudaEventWaitDefault) return cudaErrorInvalidValue;
    return wait_for_event(*stream, *event, lock);
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* argument) {
  return api([&](Lock& lock) {
    Stream* const stream = find_stream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    return enqueue(*stream, make_host_function(function, argument), lock);
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* handle, unsigned int flags) {
  return api([&](Lock&) {
    if ((flags & ~(cudaEventBlockingSync | cudaEventDisableTiming)) != 0) {
      return cudaErrorInvalidValue;
    }
    auto* event = new CUevent_st;
    event->device = current_device().index;
    event->timing = (flags & cudaEventDisableTiming) == 0;
    events().insert(event);
    *handle = event;
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* handle) {
  return cudaEventCreateWithFlags(handle, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return api([&](Lock&) {
    if (events().erase(event) == 0) return cudaErrorInvalidResourceHandle;
    delete event;
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  return api([&](Lock& lock) {
    Stream* const stream = find_stream(handle);
    if (stream == nullptr || !exists(event)) return cudaErrorInvalidResourceHandle;
    if (event->device != stream->device->index) return cudaErrorInvalidResourceHandle;
    if (stream->capture) return capture_record(*stream, *event);
    auto record = std::make_shared<Record>();
    record->stream = stream->shared_from_this();
    const cudaError_t error =
        enqueue(*stream, std::make_shared<RecordOperation>(record), lock, &record->item);
    if (error != cudaSuccess) return error;
    event->capture = nullptr;
    event->record = std::move(record);
    return cudaSuccess;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return api([&](Lock& lock) {
    if (!exists(event)) return cudaErrorInvalidResourceHandle;
    if (event->capture) return invalidate(*event->capture, cudaErrorCapturedEvent);
    const auto record = event->record;
    ++runtime().host_waits;
    if (!record) return cudaSuccess;
    finish(*record->stream, record->item, lock);
    return record->stream->device->sticky;
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return api([&](Lock& lock) {
    if (!exists(event)) return cudaErrorInvalidResourceHandle;
    if (event->capture) return invalidate(*event->capture, cudaErrorCapturedEvent);
    const auto record = event->record;
    if (!record) return cudaSuccess;
    const bool asked = std::exchange(record->asked, true);
    const cudaError_t answer = query(*record->stream, record->item, asked, lock);
    const cudaError_t sticky = record->stream->device->sticky;
    return sticky != cudaSuccess ? sticky : answer;
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return api([&](Lock&) {
    if (!exists(start) || !exists(end)) return cudaErrorInvalidResourceHandle;
    for (const CUevent_st* event : {start, end}) {
      if (!event->record || !event->timing) return cudaErrorInvalidResourceHandle;
      if (event->record->stream->completed < event->record->item) return cudaErrorNotReady;
    }
    *milliseconds =
        std::chrono::duration<float, std::milli>(end->record->when - start->record->when).count();
    return cudaSuccess;
  });
}
