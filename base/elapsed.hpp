// Seconds on a clock that is never set.
#pragma once

#include <chrono>

namespace atl {

using SteadyTime = std::chrono::steady_clock::time_point;

inline SteadyTime steady_now() { return std::chrono::steady_clock::now(); }

inline double seconds_since(SteadyTime start) {
  return std::chrono::duration<double>(steady_now() - start).count();
}

}  // namespace atl
