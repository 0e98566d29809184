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

// Only one block is running at a time, in the whole process, and so is one of these.
Stack host;
Stack* running = &host;
Stack* left = nullptr;  // the one that was running before

void switch_to(Stack& next) {
  left = std::exchange(running, &next);
  announce_switch(next.sanitizer);
  boost::context::fiber rest = std::move(next.rest).resume();
  left->rest = std::move(rest);  // whoever comes back here has left another stack than this
}

}  // namespace

Fiber::Fiber(std::function<void()> body)
    : body_(std::move(body)),
      stack_{
          {std::allocator_arg, stagger(context::protected_fixedsize_stack(kStackBytes).allocate()),
           context::protected_fixedsize_stack(kStackBytes),
           [this](boost::context::fiber&& rest) {
             left->rest = std::move(rest);
             body_();
             return std::move(host.rest);
           }},
          new_sanitizer_fiber()} {}

void Fiber::resume() {
  if (running == &host) host.sanitizer = current_sanitizer_fiber();
  switch_to(stack_);
}

void Fiber::suspend() { switch_to(host); }

}  // namespace atl::cuda_emulation
