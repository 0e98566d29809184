// The contract of a compute device: memory, queues, and run(), which checks an operation of
// kernels/operations once (shapes, types, aliasing) and hands it to the device's kernel. Operations
// take views, allocate nothing that the caller sees, and run on an explicit Queue; on a CPU the
// work is done when the call returns.
//
// Unless an operation says otherwise: matrices share one dtype, but gamma, beta and the gradients
// of parameters have parameter_dtype() of it; outputs must not overlap inputs; empty matrices are
// valid and do nothing (outputs that are sums become 0); spans and matrices live in memory of this
// backend. Sums are f32 or wider and rounded once to the storage type. Two runs of an operation on
// the same data give the same bits, unless a kernel was asked for that does not promise it
// (SpmmWish::kCusparse).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>

#include "base/trace.hpp"
#include "kernels/operations/list.hpp"
#include "kernels/profiled_operation.hpp"
#include "kernels/queue.hpp"

namespace atl {

// Work that was queued once and can be queued again as a whole (a CUDA graph).
class Recording {
 public:
  virtual ~Recording() = default;
};

enum class CopyKind : std::uint8_t { kHostToDevice, kDeviceToHost, kDeviceToDevice };
enum class QueuePriority : std::uint8_t { kNormal, kHigh };
// How long an operator is used: in the whole run, so that measurements pay, or for a few products
// until the next one takes its place.
enum class Lifetime : std::uint8_t { kRun, kStep };

class Backend : public Interface<kernels::KernelOperations> {
 public:
  virtual std::string device() const = 0;  // for logs, e.g. "AMD EPYC, 2 threads, AVX-512"
  // True if host code may dereference this backend's memory.
  virtual bool host_accessible() const = 0;
  // Equal for two backends of one host if and only if they share a device: "host", or a PCI id.
  virtual std::string device_id() const = 0;
  // Bytes that allocate() could hand out now, other processes of the device considered.
  virtual std::int64_t available_bytes() = 0;

  // Memory, 64-byte aligned, uninitialised. Throws Error{kMemory} with the bytes asked for.
  // release() waits for queued work that may use it.
  virtual void* allocate(std::int64_t bytes) = 0;
  virtual void release(void* data) noexcept = 0;
  // Host memory that copies to and from the device run on without the host (pinned); 64-byte
  // aligned. Throws Error{kMemory}. release_staging() waits for queued copies that may use it.
  virtual void* allocate_staging(std::int64_t bytes) = 0;
  virtual void release_staging(void* data) noexcept = 0;
  // Calls of both so far: an epoch in its stride makes none.
  std::int64_t allocations() const { return allocations_; }
  // Host memory must stay unchanged until the copy has run, unless it is not of
  // allocate_staging(): then it is read, or written, before copy() returns.
  virtual void copy(Queue& queue, void* to, const void* from, std::int64_t bytes,
                    CopyKind kind) = 0;

  // Work on a queue of high priority is preferred where both could run.
  virtual std::unique_ptr<Queue> make_queue(QueuePriority priority = QueuePriority::kNormal) = 0;
  // For nothing but copy(): unlike others it takes no memory of the device.
  virtual std::unique_ptr<Queue> make_copy_queue() = 0;
  // Work queued on `queue` after this call runs after everything queued on `before` so far.
  virtual void wait_for(Queue& queue, Queue& before) = 0;
  // Blocks the host until the queue is empty; throws Error{kDevice} for deferred errors.
  virtual void synchronize(Queue& queue) = 0;
  // True if everything queued so far has run; throws Error{kDevice} for deferred errors.
  virtual bool is_idle(Queue& queue) = 0;

  // Calls body and keeps what it queues on `queue`, and on queues joined to it by wait_for, without
  // running it; body must not allocate, synchronize or copy from memory not of allocate_staging().
  // Null if this backend can't record: body was not called then.
  virtual std::unique_ptr<Recording> record(Queue& queue, const std::function<void()>& body) = 0;
  // Queues everything of the recording, which must stay alive until it has run.
  virtual void replay(Queue& queue, Recording& recording) = 0;

  // Times work of this queue on the device; null if the host's clock does (a CPU).
  virtual std::unique_ptr<SpanClock> make_clock(Queue& queue) = 0;

  // From now on every operation on `queue` is recorded as a span with its name. Where make_clock()
  // gives a clock, the recorder must use one of that queue. A null recorder ends it.
  void profile_into(TraceRecorder* recorder, const Queue* queue) {
    profile_ = recorder;
    profiled_queue_ = queue;
  }

  // Checks the operation, and computes it on `queue`: kernels/operations says what each one does.
  template <typename Operation>
  void run(Queue& queue, const Operation& operation) {
    ProfiledOperation profiled(profile_of(queue), kernels::name_of(operation), request_,
                               [&] { return operation.work(host_accessible()); });
    operation.check(*this);
    if constexpr (kernels::kHasKernels<Operation>) last_kernel_ = "";
    const auto compute_one = [&](const auto& part) { compute(queue, part); };
    if (operation.empty()) {
      if constexpr (requires { operation.zeroed(); }) {
        for (const MatrixView view : operation.zeroed()) {
          if (!view.empty()) compute(queue, kernels::FillZero{view});
        }
      }
      return;
    }
    if constexpr (requires { operation.compute_by(compute_one); }) {
      operation.compute_by(compute_one);
    } else {
      compute_one(operation);
    }
    if constexpr (kernels::kHasKernels<Operation>) {
      if (!profiled.recorded() || *last_kernel_ == '\0') return;
      profiled.set_what(labels_.insert(operation.label(last_kernel_)).first->c_str());
    }
  }
  // Calls body, which computes on `queue` or on the host, recorded as an operation of this name.
  template <typename Body>
  void run_own(Queue& queue, const char* name, const SpanWork& work, const Body& body) {
    ProfiledOperation profiled(profile_of(queue), name, request_, [&] { return work; });
    body();
  }
  // Operations from now on are asked for by this one of a program: a literal, or "".
  void set_request(const char* request) { request_ = request; }
  // The kernel that ran the last operation of which a backend has several (spmm), else "".
  const char* last_kernel() const { return last_kernel_; }
  // Works out how to run spmm of `op` on each of `ranges` fast, and how what else goes along its
  // edges divides rows of many. host_row_ptr: op.row_ptr in host memory. Null where nothing is to
  // be worked out. Products of an operator that lasts may measure on the device; not while
  // recording.
  virtual std::shared_ptr<const PreparedSparse> prepare_spmm(
      Queue& queue, const SparseOperator& op, std::span<const std::int64_t> host_row_ptr,
      std::span<const RowRange> ranges, Lifetime lifetime = Lifetime::kRun) = 0;

 protected:
  void count_allocation() { ++allocations_; }
  // For backends that have several kernels for an operation: which one it runs. A literal.
  void name_kernel(const char* kernel) { last_kernel_ = kernel; }

 private:
  // The recorder if operations on this queue are profiled, else null.
  TraceRecorder* profile_of(const Queue& queue) const {
    return &queue == profiled_queue_ ? profile_ : nullptr;
  }

  std::int64_t allocations_ = 0;
  TraceRecorder* profile_ = nullptr;
  const Queue* profiled_queue_ = nullptr;
  const char* last_kernel_ = "";
  const char* request_ = "";
  std::set<std::string> labels_;  // of operations in profiles
};

// Frees memory of a backend.
struct DeviceDeleter {
  Backend* backend = nullptr;
  void operator()(void* data) const noexcept { backend->release(data); }
};
using DeviceMemory = std::unique_ptr<void, DeviceDeleter>;

}  // namespace atl
