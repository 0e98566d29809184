#include "tests/support/cuda_emulation/host_functions.hpp"

#include <chrono>
#include <deque>
#include <thread>
#include <utility>

#include "tests/support/cuda_emulation/memory.hpp"

namespace atl::cuda_emulation {
namespace {

constexpr auto kPatience = std::chrono::milliseconds(5);

struct Due {
  std::shared_ptr<Stream> stream;
  std::uint64_t item;
  std::chrono::steady_clock::time_point when;
};

std::deque<Due>& due() {
  static auto* const waiting = new std::deque<Due>;
  return *waiting;
}

void execute_due() {
  Lock lock(runtime().mutex);
  while (true) {
    while (due().empty()) runtime().changed.wait(lock);
    const Due next = due().front();
    if (runtime().changed.wait_until(lock, next.when) != std::cv_status::timeout) continue;
    // What can't be completed now stays in line.
    due().pop_front();
    if (advance(*next.stream, next.item, lock)) continue;
    due().push_back({next.stream, next.item, std::chrono::steady_clock::now() + kPatience});
  }
}

class HostFunction : public Operation {
 public:
  HostFunction(cudaHostFn_t function, void* argument) : function_(function), argument_(argument) {}

  void start(Stream& stream, std::uint64_t item) override {
    static const bool started = (std::thread(execute_due).detach(), true);
    static_cast<void>(started);
    due().push_back(
        {stream.shared_from_this(), item, std::chrono::steady_clock::now() + kPatience});
  }

  bool run(Lock& lock) override {
    memory().close();
    lock.unlock();
    {
      const HostFunctionScope scope;
      function_(argument_);
    }
    lock.lock();
    return true;
  }

 private:
  cudaHostFn_t function_;
  void* argument_;
};

}  // namespace

std::shared_ptr<Operation> make_host_function(cudaHostFn_t function, void* argument) {
  return std::make_shared<HostFunction>(function, argument);
}

}  // namespace atl::cuda_emulation
