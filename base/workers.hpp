// Threads that share the chunks of a loop.
//
// Not OpenMP's, because other programs may want the cores, too: then a thread may not run for
// milliseconds. A parallel loop of OpenMP ends when every thread of the team has come to its end,
// so it takes as long as the last one needs to be scheduled, even if that one finds nothing left to
// do. Here the caller starts at once, helpers join when they run, and it waits only for chunks that
// a helper has begun. Both spin for moments only and then sleep. Beside builds on two cores, the
// tests of programs took 426 s with OpenMP's threads and 75 s with these.
//
// Tried: OMP_WAIT_POLICY=passive. It helps beside other programs, but on a quiet machine small
// operations take 2.5 times as long. OpenMP stays where oneDNN asks it for a number of threads and
// where the bandwidth of the memory is measured.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace atl {

// How many of `most` threads are worth their handing over, a few microseconds each, for work on so
// many elements: one read, a few operations and one written, or what takes as long (half a
// nanosecond or so).
inline constexpr std::int64_t kElementsPerThread = 16384;
inline int threads_for(std::int64_t elements, int most) {
  return static_cast<int>(std::clamp<std::int64_t>(elements / kElementsPerThread, 1, most));
}

class Workers {
 public:
  // At most `threads` at a time, the caller included; the others are started when first needed, and
  // call `at_start` then. If the system refuses some, the others do the work.
  explicit Workers(int threads, void (*at_start)() = nullptr)
      : threads_(threads), at_start_(at_start) {}
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  ~Workers();

  int threads() const { return threads_; }

  // Calls body(chunk, slot) once for every chunk of [0, chunks), by at most `threads` threads at
  // once; slot < `threads` is another one for each of them. Rethrows what a body threw first, when
  // no other runs any more. One thread at a time may call it, and not from within a body.
  template <typename Body>
  void run(std::int64_t chunks, int threads, const Body& body) {
    const auto helpers = static_cast<int>(std::min<std::int64_t>({threads, threads_, chunks})) - 1;
    if (helpers < 1) {
      for (std::int64_t chunk = 0; chunk < chunks; ++chunk) body(chunk, 0);
      return;
    }
    const auto call = [](const void* context, std::int64_t chunk, int slot) {
      (*static_cast<const Body*>(context))(chunk, slot);
    };
    share({call, &body, chunks}, helpers);
  }

 private:
  struct Loop {
    void (*call)(const void* context, std::int64_t chunk, int slot) = nullptr;
    const void* context = nullptr;
    std::int64_t chunks = 0;
  };

  void share(const Loop& loop, int helpers);
  void start(int helpers);
  void help();  // what a thread does until stopping_
  bool join_loop(int& slot);
  void take_chunks(int slot);

  // Who takes part in the current loop, in one word, so that nobody joins a loop that has ended:
  // numbers of helpers that have joined and that may, whether it is open, and which loop it is.
  static constexpr std::uint64_t kJoined = 1;
  static constexpr int kCountBits = 16;
  static constexpr std::uint64_t kCountMask = (std::uint64_t{1} << kCountBits) - 1;
  static constexpr std::uint64_t kOpen = std::uint64_t{1} << (2 * kCountBits);
  static constexpr std::uint64_t kNextLoop = kOpen << 1;

  const int threads_;
  void (*const at_start_)();
  std::vector<std::jthread> helpers_;
  Loop loop_;  // of those who have joined
  std::mutex error_mutex_;
  std::exception_ptr error_;  // of the current loop
  std::atomic<bool> stopping_{false};
  alignas(64) std::atomic<std::uint64_t> gate_{0};
  alignas(64) std::atomic<std::uint32_t> calls_{0};  // changes when a loop opens
  alignas(64) std::atomic<std::uint32_t> left_{0};   // helpers that have left the loop again
  alignas(64) std::atomic<std::int64_t> next_{0};    // chunk
};

}  // namespace atl
