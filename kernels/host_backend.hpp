// What the backends that compute on the host share: memory, copies and a queue that is always
// empty.
#pragma once

#include "kernels/backend.hpp"

namespace atl {

class HostBackend : public Backend {
 public:
  bool host_accessible() const final { return true; }

  // Refuses what exceeds the memory available now, because an overcommitted allocation would
  // succeed and kill the process later.
  void* allocate(std::int64_t bytes) final;
  void release(void* data) noexcept final;
  void copy(Queue& queue, void* to, const void* from, std::int64_t bytes, CopyKind kind) override;

  std::unique_ptr<Queue> make_queue() final;
  void wait_for(Queue&, Queue&) final {}
  void synchronize(Queue&) final {}
};

}  // namespace atl
