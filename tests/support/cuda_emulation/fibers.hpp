// Stacks that the threads of an emulated block run on, and switching between them.
#pragma once

#include <boost/context/fiber.hpp>
#include <functional>
#include <utility>

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace atl::cuda_emulation {

#ifdef __SANITIZE_THREAD__
inline void* new_sanitizer_fiber() { return __tsan_create_fiber(0); }
inline void* current_sanitizer_fiber() { return __tsan_get_current_fiber(); }
inline void announce_switch(void* fiber) { __tsan_switch_to_fiber(fiber, 0); }
#else
inline void* new_sanitizer_fiber() { return nullptr; }
inline void* current_sanitizer_fiber() { return nullptr; }
inline void announce_switch(void*) {}
#endif

// Where a stack goes on, and the thread sanitizer's handle of it.
struct Stack {
  boost::context::fiber rest;
  void* sanitizer = nullptr;
};

// Only one block is running at a time, in the whole process, and so is one of these.
struct RunningStacks {
  Stack host;
  Stack* running = &host;
  Stack* left = nullptr;  // the one that was running before
};
inline RunningStacks running_stacks;

// Inlined into its callers, and these into theirs: a processor predicts that a return leads back to
// where the last call on the same stack came from, so each one behind a switch costs as much as a
// hundred instructions.
[[gnu::always_inline]] inline void switch_to(Stack& next) {
  RunningStacks& stacks = running_stacks;
  stacks.left = std::exchange(stacks.running, &next);
  announce_switch(next.sanitizer);
  boost::context::fiber rest = std::move(next.rest).resume();
  // Whoever comes back here has left another stack than this.
  running_stacks.left->rest = std::move(rest);
}

// One stack with the code that runs on it; kept from block to block, so that starting a block costs
// no allocation. Used by one host thread at a time.
class Fiber {
 public:
  explicit Fiber(std::function<void()> body);
  // Goes on with the body, from the host's own stack or from another fiber, which stays where it
  // is.
  [[gnu::always_inline]] inline void resume() {
    RunningStacks& stacks = running_stacks;
    if (stacks.running == &stacks.host) stacks.host.sanitizer = current_sanitizer_fiber();
    switch_to(stack_);
  }
  // From within any body: back to the host's stack.
  static void suspend() { switch_to(running_stacks.host); }

 private:
  std::function<void()> body_;
  Stack stack_;
};

}  // namespace atl::cuda_emulation
