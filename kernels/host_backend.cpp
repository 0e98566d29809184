#include "kernels/host_backend.hpp"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "base/error.hpp"
#include "base/memory.hpp"

namespace atl {

namespace {

constexpr std::int64_t kAlignment = 64;
constexpr std::int64_t kHugePage = 2 << 20;
// Below this an allocation is checked by the allocator alone: asking the system costs microseconds.
constexpr std::int64_t kCheckedBytes = 16 << 20;

class HostQueue : public Queue {};

constexpr std::int64_t round_up(std::int64_t bytes, std::int64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

void* HostBackend::allocate(std::int64_t bytes) {
  ATOLL_ASSERT(bytes >= 0, "{} bytes", bytes);
  if (bytes >= kCheckedBytes) {
    const std::int64_t available = available_memory_bytes();
    if (bytes > available) {
      fail(ErrorKind::kMemory,
           "backend {}: {} ({} bytes) of memory asked for, {} ({} bytes) available", name(),
           format_bytes(bytes), bytes, format_bytes(available), available);
    }
  }
  const std::int64_t alignment = bytes >= 2 * kHugePage ? kHugePage : kAlignment;
  const auto size = static_cast<std::size_t>(round_up(bytes > 0 ? bytes : 1, alignment));
  void* data = std::aligned_alloc(static_cast<std::size_t>(alignment), size);
  if (data == nullptr) {
    fail(ErrorKind::kMemory, "backend {}: {} ({} bytes) of memory asked for, the system refused",
         name(), format_bytes(bytes), bytes);
  }
  // Random reads of rows miss the TLB at every edge with small pages. A refusal costs only speed.
  if (alignment == kHugePage) ::madvise(data, size, MADV_HUGEPAGE);
  return data;
}

void HostBackend::release(void* data) noexcept { std::free(data); }

void HostBackend::copy(Queue&, void* to, const void* from, std::int64_t bytes, CopyKind) {
  ATOLL_ASSERT(bytes >= 0, "{} bytes", bytes);
  if (bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

std::unique_ptr<Queue> HostBackend::make_queue() { return std::make_unique<HostQueue>(); }

}  // namespace atl
