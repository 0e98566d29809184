#include "tests/support/cuda_emulation/fibers.hpp"

#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstddef>
#include <memory>
#include <utility>

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

}  // namespace

Fiber::Fiber(std::function<void()> body)
    : body_(std::move(body)),
      stack_{
          {std::allocator_arg, stagger(context::protected_fixedsize_stack(kStackBytes).allocate()),
           context::protected_fixedsize_stack(kStackBytes),
           [this](boost::context::fiber&& rest) {
             running_stacks.left->rest = std::move(rest);
             body_();
             return std::move(running_stacks.host.rest);
           }},
          new_sanitizer_fiber()} {}

}  // namespace atl::cuda_emulation
