#include "kernels/host_backend.hpp"

#include <sys/mman.h>

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "base/error.hpp"
#include "base/memory.hpp"
#include "kernels/inverse_deviation.hpp"

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
  count_allocation();
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

std::int64_t HostBackend::available_bytes() { return available_memory_bytes(); }

std::unique_ptr<Queue> HostBackend::make_queue(QueuePriority) {
  return std::make_unique<HostQueue>();
}

void HostBackend::replay(Queue&, Recording&) {
  ATOLL_ASSERT(false, "backend {} makes no recordings", name());
}

void kernel(HostBackend&, Queue&, const kernels::SumParts& call) {
  const auto& [parts, out] = call;
  const auto sum = [&]<typename T>(T) {
    T* total = out.row<T>(0);
    for (std::int64_t j = 0; j < out.cols; ++j) {
      double value = static_cast<double>(parts.row<T>(0)[j]);
      for (std::int64_t i = 1; i < parts.rows; ++i) {
        value += static_cast<double>(parts.row<T>(i)[j]);
      }
      total[j] = static_cast<T>(value);
    }
  };
  if (out.dtype == DType::kF64) {
    sum(double{});
  } else {
    sum(float{});
  }
}

void kernel(HostBackend&, Queue&, const kernels::BatchNormStatistics& call) {
  const auto& [sums, count, momentum, epsilon, running_mean, running_variance, mean, inv_std] =
      call;
  const auto n = static_cast<double>(count);
  for (std::size_t j = 0; j < mean.size(); ++j) {
    const double shift = sums[j] / n;
    mean[j] = running_mean[j] + shift;
    const double spread = sums[mean.size() + j] / n - shift * shift;
    const double variance = spread < 0 ? 0 : spread;  // NaN stays NaN
    const double unbiased = count > 1 ? variance * n / (n - 1) : variance;
    running_mean[j] += momentum * shift;
    running_variance[j] += momentum * (unbiased - running_variance[j]);
    inv_std[j] = inverse_deviation(mean[j], variance, epsilon);
  }
}

void kernel(HostBackend&, Queue&, const kernels::InverseStd& call) {
  const auto& [variance, epsilon, out] = call;
  for (std::size_t j = 0; j < out.size(); ++j) out[j] = 1 / std::sqrt(variance[j] + epsilon);
}

}  // namespace atl
