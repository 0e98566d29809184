#include "kernels/cuda/clock.hpp"

#include <nvtx3/nvToolsExt.h>

#include "base/error.hpp"

namespace atl::cuda {

namespace {

Event make_timing_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "cudaEventCreate");
  return Event(event);
}

}  // namespace

CudaClock::CudaClock(cudaStream_t stream) : stream_(stream), origin_(make_timing_event()) {
  reset();
}

void CudaClock::reset() {
  used_ = 0;
  check(cudaEventRecord(origin_.get(), stream_), "cudaEventRecord");
}

int CudaClock::mark() noexcept {
  const auto index = static_cast<std::size_t>(used_);
  if (index == marks_.size()) {
    cudaEvent_t event = nullptr;
    if (cudaEventCreate(&event) != cudaSuccess) return -1;
    marks_.emplace_back(event);
  }
  // The error itself is reported by the next operation or synchronization.
  if (cudaEventRecord(marks_[index].get(), stream_) != cudaSuccess) return -1;
  return used_++;
}

double CudaClock::microseconds(int mark) {
  ATOLL_ASSERT(0 <= mark && mark < used_, "mark {} of {}", mark, used_);
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, origin_.get(),
                             marks_[static_cast<std::size_t>(mark)].get()),
        "cudaEventElapsedTime");
  return 1000.0 * static_cast<double>(milliseconds);
}

void CudaClock::push_range(const char* name) { nvtxRangePushA(name); }

void CudaClock::pop_range() { nvtxRangePop(); }

}  // namespace atl::cuda
