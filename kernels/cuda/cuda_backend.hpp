// The cuda backend: one device, queues that are streams, own kernels beside cuBLAS and cuSPARSE;
// f32 and bf16.
//
// One backend belongs to one host thread at a time; many may live in one process, on one device or
// several. Results are the same in every run: no sum depends on which block or thread is first.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/memory.hpp"
#include "kernels/cuda/queue.hpp"
#include "kernels/cuda/spmm.hpp"
#include "kernels/registry.hpp"

namespace atl::cuda {

// As that of atl, for kernels in this namespace.
template <typename Self, typename Operation>
class DeclaresKernel {
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wnon-template-friend"  // it is no template on purpose
#endif
  friend void kernel(Self& backend, Queue& queue, const Operation& operation);
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
};

class CudaBackend final
    : public Implements<CudaBackend, Backend, kernels::KernelOperations, DeclaresKernel> {
 public:
  // Throws as choose_device().
  explicit CudaBackend(const BackendOptions& options);

  std::string name() const override { return "cuda"; }
  std::string device() const override { return device_.describe(); }
  bool supports(DType dtype) const override { return dtype != DType::kF64; }
  bool host_accessible() const override { return false; }
  std::string device_id() const override { return device_.pci_id; }
  std::int64_t available_bytes() override;

  void* allocate(std::int64_t bytes) override;
  void release(void* data) noexcept override;
  void* allocate_staging(std::int64_t bytes) override;
  void release_staging(void* data) noexcept override;
  void copy(Queue& queue, void* to, const void* from, std::int64_t bytes, CopyKind kind) override;

  std::unique_ptr<Queue> make_queue(QueuePriority priority) override;
  std::unique_ptr<Queue> make_copy_queue() override;
  void wait_for(Queue& queue, Queue& before) override;
  void synchronize(Queue& queue) override;
  bool is_idle(Queue& queue) override;
  std::unique_ptr<Recording> record(Queue& queue, const std::function<void()>& body) override;
  void replay(Queue& queue, Recording& recording) override;
  std::unique_ptr<SpanClock> make_clock(Queue& queue) override;
  std::shared_ptr<const PreparedSparse> prepare_spmm(Queue& queue, const SparseOperator& op,
                                                     std::span<const std::int64_t> host_row_ptr,
                                                     std::span<const RowRange> ranges,
                                                     Lifetime lifetime) override;

  // --- for kernels ---
  // This backend's queue behind the interface, with its device made the thread's current one: the
  // host thread may have used another device since.
  CudaQueue& use(Queue& queue) const;
  bool tf32() const { return tf32_; }

 private:
  friend void kernel(CudaBackend& backend, Queue& queue, const kernels::Spmm& call);

  void use_device() const;
  bool is_staging(const void* data, std::int64_t bytes) const;
  void end_recording();

  Device device_;
  bool tf32_;
  std::shared_ptr<KernelChoices> choices_;
  MemoryPool memory_;
  QueueList queues_;
  std::map<const std::byte*, std::int64_t> staging_;  // bytes by address
  bool recording_ = false;
  std::vector<void*> released_;  // while recording, to be released after it
  std::vector<void*> released_staging_;
};

}  // namespace atl::cuda
