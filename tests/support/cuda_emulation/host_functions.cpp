#include "tests/support/cuda_emulation/host_functions.hpp"

#include <pthread.h>

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
bool watching = false;  // whether a thread executes what is due

void execute_due() {
  Lock lock(runtime().mutex);
  while (!due().empty()) {
    const Due next = due().front();
    if (next.stream->completed >= next.item) {
      due().pop_front();
    } else if (std::chrono::steady_clock::now() < next.when) {
      runtime().changed.wait_until(lock, next.when);
    } else {
      // Work that can't be completed now stays in line.
      due().pop_front();
      due().push_back({next.stream, next.item, std::chrono::steady_clock::now() + kPatience});
      advance(*next.stream, next.item, lock);
    }
  }
  watching = false;
}

class HostFunction : public Operation {
 public:
  HostFunction(cudaHostFn_t function, void* argument) : function_(function), argument_(argument) {}

  void start(Stream& stream, std::uint64_t item) override {
    const auto when = std::chrono::steady_clock::now() + kPatience;
    due().push_back({stream.shared_from_this(), item, when});
    // A forked process has no copy of the thread.
    static const int noted = pthread_atfork(nullptr, nullptr, [] { watching = false; });
    static_cast<void>(noted);
    if (!std::exchange(watching, true)) std::thread(execute_due).detach();
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
