#include "tests/support/cuda_emulation/fibers.hpp"

#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstddef>
#include <memory>
#include <utility>

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace atl::cuda_emulation {
namespace {

namespace context = boost::context;

constexpr std::size_t kStackBytes = 256 * 1024;

// Stacks start at different distances from the page end, or all would compete for the same few
// lines of the cache.
context::preallocated stagger(const context::stack_context& stack) {
  constexpr std::size_t kStep = 5 * 64;
  static std::size_t count = 0;
  const std::size_t unused = count++ * kStep % 4096;
  return {static_cast<char*>(stack.sp) - unused, stack.size - unused, stack};
}

#ifdef __SANITIZE_THREAD__
void* new_sanitizer_fiber() { return __tsan_create_fiber(0); }
void* current_sanitizer_fiber() { return __tsan_get_current_fiber(); }
void announce_switch(void* fiber) { __tsan_switch_to_fiber(fiber, 0); }
#else
void* new_sanitizer_fiber() { return nullptr; }
void* current_sanitizer_fiber() { return nullptr; }
void announce_switch(void*) {}
#endif

}  // namespace

Fiber::Fiber(std::function<void()> body)
    : body_(std::move(body)),
      inside_(std::allocator_arg,
              stagger(context::protected_fixedsize_stack(kStackBytes).allocate()),
              context::protected_fixedsize_stack(kStackBytes),
              [this](boost::context::fiber&& scheduler) {
                outside_ = std::move(scheduler);
                body_();
                return std::move(outside_);
              }),
      sanitizer_inside_(new_sanitizer_fiber()) {}

void Fiber::resume() {
  sanitizer_outside_ = current_sanitizer_fiber();
  announce_switch(sanitizer_inside_);
  inside_ = std::move(inside_).resume();
}

void Fiber::suspend() {
  announce_switch(sanitizer_outside_);
  outside_ = std::move(outside_).resume();
}

}  // namespace atl::cuda_emulation
