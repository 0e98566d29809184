#include "tests/support/cuda_emulation/fibers.hpp"

#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstddef>
#include <memory>
#include <utility>

namespace atl::cuda_emulation {
namespace {

constexpr std::size_t kStackBytes = 256 * 1024;

}  // namespace

Fiber::Fiber(std::function<void()> body)
    : body_(std::move(body)),
      inside_(std::allocator_arg, boost::context::protected_fixedsize_stack(kStackBytes),
              [this](boost::context::fiber&& scheduler) {
                outside_ = std::move(scheduler);
                body_();
                return std::move(outside_);
              }) {}

void Fiber::resume() { inside_ = std::move(inside_).resume(); }

void Fiber::suspend() { outside_ = std::move(outside_).resume(); }

}  // namespace atl::cuda_emulation
