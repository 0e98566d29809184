// How many threads OpenMP uses for what the calling thread does, for a while, and work for two.
#pragma once

#include <omp.h>

#include <algorithm>
#include <array>
#include <exception>

namespace atl {

class OpenMpThreads {
 public:
  explicit OpenMpThreads(int threads) : before_(omp_get_max_threads()) {
    omp_set_num_threads(threads);
  }
  OpenMpThreads(const OpenMpThreads&) = delete;
  OpenMpThreads& operator=(const OpenMpThreads&) = delete;
  ~OpenMpThreads() { omp_set_num_threads(before_); }

 private:
  int before_;
};

// do_one(0) and do_one(1), on a thread each where there are two. The first one's error is thrown
// again, else the second one's; neither ends the other.
template <typename DoOne>
void do_both(const DoOne& do_one) {
  std::array<std::exception_ptr, 2> errors;
#pragma omp parallel for schedule(static, 1) num_threads(std::min(2, omp_get_max_threads()))
  for (int i = 0; i < 2; ++i) {
    try {
      do_one(i);
    } catch (...) {
      errors[i] = std::current_exception();
    }
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace atl
