// The common part of the backends that compute on the host: memory, copies, a queue that is always
// empty, and operations too small to be worth a second version.
#pragma once

#include "kernels/backend.hpp"

namespace atl {

class HostBackend : public Implements<HostBackend, Backend, kernels::HostOperations> {
 public:
  bool host_accessible() const final { return true; }
  std::string device_id() const final { return "host"; }
  std::int64_t available_bytes() final;

  // Refuses what exceeds the memory available now, because an overcommitted allocation would
  // succeed and kill the process later.
  void* allocate(std::int64_t bytes) final;
  void release(void* data) noexcept final;
  void* allocate_staging(std::int64_t bytes) final { return allocate(bytes); }
  void release_staging(void* data) noexcept final { release(data); }
  void copy(Queue& queue, void* to, const void* from, std::int64_t bytes, CopyKind kind) override;

  std::unique_ptr<Queue> make_queue(QueuePriority priority = QueuePriority::kNormal) final;
  std::unique_ptr<Queue> make_copy_queue() final { return make_queue(); }
  void wait_for(Queue&, Queue&) final {}
  void synchronize(Queue&) final {}
  bool is_idle(Queue&) final { return true; }
  // Queueing is running here, so there is nothing to record.
  std::unique_ptr<Recording> record(Queue&, const std::function<void()>&) final { return nullptr; }
  void replay(Queue& queue, Recording& recording) final;
  std::unique_ptr<SpanClock> make_clock(Queue&) final { return nullptr; }
  std::shared_ptr<const PreparedSparse> prepare_spmm(Queue&, const SparseOperator&,
                                                     std::span<const std::int64_t>,
                                                     std::span<const RowRange>, Lifetime) override {
    return nullptr;
  }
};

}  // namespace atl
