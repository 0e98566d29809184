// A guard for calls of METIS.
#pragma once

#include <cstdio>
#include <mutex>

namespace atl {

// While it lives, no other call is at work, since METIS draws from the C library's one sequence of
// random numbers; and what METIS prints about cuts that it finds hard is dropped, for our standard
// output may be JSON.
class MetisCall {
 public:
  MetisCall() : lock_(mutex_), printed_(stdout), dropped_(std::fopen("/dev/null", "w")) {
    if (dropped_ != nullptr) stdout = dropped_;
  }
  MetisCall(const MetisCall&) = delete;
  MetisCall& operator=(const MetisCall&) = delete;
  ~MetisCall() {
    stdout = printed_;
    if (dropped_ != nullptr) std::fclose(dropped_);
  }

 private:
  static inline std::mutex mutex_;
  std::lock_guard<std::mutex> lock_;
  std::FILE* printed_;
  std::FILE* dropped_;
};

}  // namespace atl
