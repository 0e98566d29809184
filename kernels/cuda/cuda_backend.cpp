#include "kernels/cuda/cuda_backend.hpp"

#include <exception>

#include "base/error.hpp"
#include "base/memory.hpp"
#include "kernels/cuda/clock.hpp"

namespace atl {

std::unique_ptr<Backend> make_cuda_backend(const BackendOptions& options) {
  return std::make_unique<cuda::CudaBackend>(options);
}

namespace cuda {

namespace {

class CudaRecording final : public Recording {
 public:
  explicit CudaRecording(GraphExec work) : work_(std::move(work)) {}
  cudaGraphExec_t work() const { return work_.get(); }

 private:
  GraphExec work_;
};

GraphExec instantiate(const Graph& graph) {
  cudaGraphExec_t made = nullptr;
  check(cudaGraphInstantiate(&made, graph.get(), 0), "cudaGraphInstantiate");
  return GraphExec(made);
}

cudaMemcpyKind copy_kind(CopyKind kind) {
  if (kind == CopyKind::kHostToDevice) return cudaMemcpyHostToDevice;
  if (kind == CopyKind::kDeviceToHost) return cudaMemcpyDeviceToHost;
  return cudaMemcpyDeviceToDevice;
}

}  // namespace

CudaBackend::CudaBackend(const BackendOptions& options)
    : device_(choose_device(options)),
      tf32_(options.tf32),
      choices_(options.choices),
      memory_(device_.index) {}

void CudaBackend::use_device() const { check(cudaSetDevice(device_.index), "cudaSetDevice"); }

CudaQueue& CudaBackend::use(Queue& queue) const {
  use_device();
  return static_cast<CudaQueue&>(queue);
}

const Launch& launch_of(CudaBackend& backend, Queue& queue) { return backend.use(queue).launch(); }

std::int64_t CudaBackend::available_bytes() {
  use_device();
  return memory_.available_bytes();
}

void* CudaBackend::allocate(std::int64_t bytes) {
  ATOLL_ASSERT(!recording_, "allocation of {} bytes while recording", bytes);
  count_allocation();
  use_device();
  void* data = memory_.allocate(bytes);
  for (const CudaQueue* queue : queues_) memory_.order_after(queue->stream());
  return data;
}

void CudaBackend::release(void* data) noexcept {
  if (data == nullptr) return;
  if (recording_) return released_.push_back(data);
  static_cast<void>(cudaSetDevice(device_.index));
  for (const CudaQueue* queue : queues_) memory_.order_before(queue->stream());
  memory_.release(data);
}

void* CudaBackend::allocate_staging(std::int64_t bytes) {
  ATOLL_ASSERT(bytes >= 0 && !recording_, "{} bytes of staging memory", bytes);
  count_allocation();
  use_device();
  const std::int64_t taken = std::max<std::int64_t>(bytes, 1);
  void* data = nullptr;
  // Pinning more than there is would end processes before it ended in an error.
  const std::int64_t available = available_memory_bytes();
  cudaError_t status = cudaErrorMemoryAllocation;
  if (taken <= available) {
    status = cudaHostAlloc(&data, static_cast<std::size_t>(taken), cudaHostAllocPortable);
  }
  // Where the system refuses to lock pages, its error is passed on.
  if (status == cudaErrorMemoryAllocation || status == cudaErrorOperatingSystem) {
    cudaGetLastError();
    fail(ErrorKind::kMemory,
         "backend cuda: {} ({} bytes) of pinned host memory asked for, {} ({} bytes) of host "
         "memory available; the limit may be that of locked memory (ulimit -l)",
         format_bytes(bytes), bytes, format_bytes(available), available);
  }
  check(status, "cudaHostAlloc");
  staging_.emplace(static_cast<const std::byte*>(data), taken);
  return data;
}

void CudaBackend::release_staging(void* data) noexcept {
  if (data == nullptr) return;
  // Waiting for a queue would end the recording with an error.
  if (recording_) return released_staging_.push_back(data);
  staging_.erase(static_cast<const std::byte*>(data));
  static_cast<void>(cudaSetDevice(device_.index));
  // A queued copy may still read or write it.
  for (const CudaQueue* queue : queues_) static_cast<void>(cudaStreamSynchronize(queue->stream()));
  static_cast<void>(cudaFreeHost(data));
}

bool CudaBackend::is_staging(const void* data, std::int64_t bytes) const {
  const auto* begin = static_cast<const std::byte*>(data);
  auto after = staging_.upper_bound(begin);
  if (after == staging_.begin()) return false;
  --after;
  return begin + bytes <= after->first + after->second;
}

void CudaBackend::copy(Queue& queue, void* to, const void* from, std::int64_t bytes,
                       CopyKind kind) {
  ATOLL_ASSERT(bytes >= 0, "{} bytes", bytes);
  if (bytes == 0) return;
  const void* host = kind == CopyKind::kHostToDevice ? from : to;
  const bool pageable = kind != CopyKind::kDeviceToDevice && !is_staging(host, bytes);
  ATOLL_ASSERT(!pageable || !recording_, "copy of pageable memory while recording");
  check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), copy_kind(kind),
                        use(queue).stream()),
        "cudaMemcpyAsync");
  // CUDA says that it may be done with pageable memory by now, not that it is.
  if (pageable) synchronize(queue);
}

std::unique_ptr<Queue> CudaBackend::make_queue(QueuePriority priority) {
  ATOLL_ASSERT(!recording_, "a new queue while recording");
  use_device();
  return std::make_unique<CudaQueue>(device_, memory_, queues_, priority, kWorkspaceBytes);
}

std::unique_ptr<Queue> CudaBackend::make_copy_queue() {
  ATOLL_ASSERT(!recording_, "a new queue while recording");
  use_device();
  return std::make_unique<CudaQueue>(device_, memory_, queues_, QueuePriority::kNormal,
                                     /*workspace_bytes=*/0);
}

void CudaBackend::wait_for(Queue& queue, Queue& before) {
  use(queue).wait_for(static_cast<const CudaQueue&>(before));
}

void CudaBackend::synchronize(Queue& queue) {
  ATOLL_ASSERT(!recording_, "synchronization while recording");
  check(cudaStreamSynchronize(use(queue).stream()), "cudaStreamSynchronize");
}

bool CudaBackend::is_idle(Queue& queue) {
  const cudaError_t status = cudaStreamQuery(use(queue).stream());
  if (status == cudaErrorNotReady) return false;
  check(status, "cudaStreamQuery");
  return true;
}

std::unique_ptr<Recording> CudaBackend::record(Queue& queue, const std::function<void()>& body) {
  ATOLL_ASSERT(!recording_, "a recording inside a recording");
  const cudaStream_t stream = use(queue).stream();
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  recording_ = true;
  std::exception_ptr error;
  try {
    body();
  } catch (...) {
    error = std::current_exception();
  }
  cudaGraph_t captured = nullptr;
  const cudaError_t status = cudaStreamEndCapture(stream, &captured);
  const Graph graph(captured);
  end_recording();
  if (error) {
    cudaGetLastError();  // what was captured before the exception may be incomplete
    std::rethrow_exception(error);
  }
  check(status, "cudaStreamEndCapture");
  return std::make_unique<CudaRecording>(instantiate(graph));
}

void CudaBackend::end_recording() {
  recording_ = false;
  for (void* data : released_) release(data);
  released_.clear();
  for (void* data : released_staging_) release_staging(data);
  released_staging_.clear();
}

void CudaBackend::replay(Queue& queue, Recording& recording) {
  const cudaGraphExec_t work = static_cast<CudaRecording&>(recording).work();
  check(cudaGraphLaunch(work, use(queue).stream()), "cudaGraphLaunch");
}

std::unique_ptr<SpanClock> CudaBackend::make_clock(Queue& queue) {
  return std::make_unique<CudaClock>(use(queue).stream());
}

}  // namespace cuda

}  // namespace atl
