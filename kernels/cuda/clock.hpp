// Times work on the device by events in a queue, and names it for a profiler.
#pragma once

#include <vector>

#include "base/trace.hpp"
#include "kernels/cuda/handles.hpp"

namespace atl::cuda {

class CudaClock final : public SpanClock {
 public:
  explicit CudaClock(cudaStream_t stream);

  void reset() override;
  int mark() noexcept override;
  double microseconds(int mark) override;
  void push_range(const char* name) override;
  void pop_range() override;

 private:
  cudaStream_t stream_;
  Event origin_;
  std::vector<Event> marks_;  // kept from one reset to the next
  int used_ = 0;
};

}  // namespace atl::cuda
