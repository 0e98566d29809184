// Stacks that the threads of an emulated block run on, and switching between them.
#pragma once

#include <boost/context/fiber.hpp>
#include <functional>

namespace atl::cuda_emulation {

// One stack with the code that runs on it; kept from block to block, so that starting a block costs
// no allocation. Used by one host thread at a time.
class Fiber {
 public:
  explicit Fiber(std::function<void()> body);
  // From the scheduler: goes on with the body until it calls suspend().
  void resume();
  // From within the body: back to the scheduler.
  void suspend();

 private:
  std::function<void()> body_;
  boost::context::fiber inside_;
  boost::context::fiber outside_;
  // The thread sanitizer's handles of the two sides.
  void* sanitizer_inside_ = nullptr;
  void* sanitizer_outside_ = nullptr;
};

}  // namespace atl::cuda_emulation
