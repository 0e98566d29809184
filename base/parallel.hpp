// Loops over the processor's cores for what a CPU prepares: graphs, cuts, checks of files. (A
// backend has threads of its own.) Whoever calls one has threads for it that sleep in between, and
// a loop in a loop is the inner thread's own: results must not depend on who does what.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>

#include "base/workers.hpp"

namespace atl {

// How many threads the loops of the calling thread have: those of a ParallelThreads; else the first
// number of OMP_NUM_THREADS; else the processors that this process may run on.
int parallel_threads();

// Sets it for the calling thread, for a while.
class ParallelThreads {
 public:
  explicit ParallelThreads(int threads);
  ParallelThreads(const ParallelThreads&) = delete;
  ParallelThreads& operator=(const ParallelThreads&) = delete;
  ~ParallelThreads();

 private:
  int before_;
};

// Calls body(chunk, slot) for every chunk of [0, chunks), as Workers::run does, with slot <
// parallel_threads().
template <typename Body>
void parallel_chunks(std::int64_t chunks, const Body& body);

// body(begin, end, slot) for pieces of `length` (the last one may be shorter) of [0, count).
template <typename Body>
void parallel_pieces(std::int64_t count, std::int64_t length, const Body& body) {
  parallel_chunks((count + length - 1) / length, [&](std::int64_t chunk, int slot) {
    body(chunk * length, std::min(count, (chunk + 1) * length), slot);
  });
}

// body(i) for every i of [0, count). A thread takes `length` of them at a time: as many as are
// worth some microseconds.
template <typename Body>
void parallel_for(std::int64_t count, std::int64_t length, const Body& body) {
  parallel_pieces(count, length, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) body(i);
  });
}

// body(0) and body(1), on a thread each where there are two. The first one's error is thrown again,
// else the second one's; neither ends the other.
template <typename Body>
void do_both(const Body& body) {
  std::array<std::exception_ptr, 2> errors;
  parallel_for(2, 1, [&](std::int64_t i) {
    try {
      body(static_cast<int>(i));
    } catch (...) {
      errors[static_cast<std::size_t>(i)] = std::current_exception();
    }
  });
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

namespace detail {

// The threads of the calling one; null within a loop.
Workers* loop_workers();

// While it lives, loops of this thread are its own.
class WithinLoop {
 public:
  WithinLoop();
  WithinLoop(const WithinLoop&) = delete;
  WithinLoop& operator=(const WithinLoop&) = delete;
  ~WithinLoop();

 private:
  bool before_;
};

}  // namespace detail

template <typename Body>
void parallel_chunks(std::int64_t chunks, const Body& body) {
  Workers* const workers = chunks > 1 ? detail::loop_workers() : nullptr;
  if (workers == nullptr) {
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) body(chunk, 0);
    return;
  }
  workers->run(chunks, parallel_threads(), [&](std::int64_t chunk, int slot) {
    const detail::WithinLoop within;
    body(chunk, slot);
  });
}

}  // namespace atl
