// How many threads OpenMP, which oneDNN asks, uses for what the calling thread does, for a while.
#pragma once

#include <omp.h>

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

}  // namespace atl
