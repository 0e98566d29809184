#include "base/address_space.hpp"

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "base/error.hpp"
#include "base/memory.hpp"

namespace atl {

namespace {

// Kernels that libraries make while they run, their tables, and what loads later.
constexpr std::int64_t kForLibraries = std::int64_t{32} << 20;
// Threads for signals, progress and the launcher's library, each with its stack.
constexpr int kOwnThreads = 3;

std::int64_t limit_of(int resource) {
  rlimit limit{};
  if (::getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0 ||
      limit.rlim_cur == RLIM_INFINITY) {
    return 0;
  }
  return static_cast<std::int64_t>(limit.rlim_cur);
}

std::int64_t stack_bytes() {
  constexpr std::int64_t kUnlimited = std::int64_t{2} << 20;  // what glibc takes then
  const std::int64_t limit = limit_of(RLIMIT_STACK);
  return limit > 0 ? limit : kUnlimited;
}

// Pages of the address space that are in use, resident or not.
std::int64_t mapped_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t pages = 0;
  file >> pages;
  return pages * ::getpagesize();
}

}  // namespace

std::optional<std::int64_t> address_space_left() {
  const std::int64_t limit = limit_of(RLIMIT_AS);
  if (limit == 0) return std::nullopt;
  return std::max<std::int64_t>(0, limit - mapped_bytes() - kForLibraries);
}

std::optional<int> fit_address_space() {
  const std::optional<std::int64_t> left = address_space_left();
  if (!left) return std::nullopt;
  const std::int64_t own = kOwnThreads * stack_bytes();
  if (*left < own) {
    const std::int64_t limit = limit_of(RLIMIT_AS);
    fail(ErrorKind::kMemory,
         "the limit of the address space is {} (ulimit -v {}), and programs and libraries take {} "
         "of "
         "it; allow at least {} (ulimit -v {}), and more for large graphs",
         format_bytes(limit), limit >> 10, format_bytes(mapped_bytes()),
         format_bytes(limit + own - *left), (limit + own - *left) >> 10);
  }
  ::mallopt(M_ARENA_MAX, 1);
  constexpr std::int64_t kMost = 1024;
  return static_cast<int>(std::clamp<std::int64_t>((*left - own) / (4 * stack_bytes()), 1, kMost));
}

}  // namespace atl
