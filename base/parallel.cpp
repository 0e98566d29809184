#include "base/parallel.hpp"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <thread>

namespace atl {

namespace {

thread_local int threads_of_caller = 0;  // 0: as many as usual
thread_local bool is_within = false;
thread_local std::unique_ptr<Workers> workers_of_caller;

int usual_threads() {
  const char* const wanted = std::getenv("OMP_NUM_THREADS");
  if (const int threads = wanted == nullptr ? 0 : std::atoi(wanted); threads > 0) return threads;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return CPU_COUNT(&allowed);
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace

int parallel_threads() { return threads_of_caller > 0 ? threads_of_caller : usual_threads(); }

ParallelThreads::ParallelThreads(int threads) : before_(threads_of_caller) {
  threads_of_caller = threads;
}

ParallelThreads::~ParallelThreads() { threads_of_caller = before_; }

namespace detail {

Workers* loop_workers() {
  if (is_within) return nullptr;
  const int threads = parallel_threads();
  if (threads < 2) return nullptr;
  if (!workers_of_caller || workers_of_caller->threads() < threads) {
    workers_of_caller = std::make_unique<Workers>(threads);
  }
  return workers_of_caller.get();
}

WithinLoop::WithinLoop() : before_(is_within) { is_within = true; }

WithinLoop::~WithinLoop() { is_within = before_; }

}  // namespace detail

}  // namespace atl
