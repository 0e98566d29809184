// Stacks that the threads of an emulated block run on, and switching between them.
#pragma once

#include <boost/context/fiber.hpp>
#include <functional>

namespace atl::cuda_emulation {

// Where a stack goes on, and the thread sanitizer's handle of it.
struct Stack {
  boost::context::fiber rest;
  void* sanitizer = nullptr;
};

// One stack with the code that runs on it; kept from block to block, so that starting a block costs
// no allocation. Used by one host thread at a time.
class Fiber {
 public:
  explicit Fiber(std::function<void()> body);
  // Goes on with the body, from the host's own stack or from another fiber, which stays where it
  // is.
  void resume();
  // From within any body: back to the host's stack.
  static void suspend();

 private:
  std::function<void()> body_;
  Stack stack_;
};

}  // namespace atl::cuda_emulation
