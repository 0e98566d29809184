#include "base/memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>

namespace atl {

namespace {

// The number after `key` in a "Key:   123 kB" file of /proc, in bytes; 0 if it isn't there.
std::int64_t proc_field(const char* file, const std::string& key) {
  std::ifstream stream(file);
  std::string word;
  while (stream >> word) {
    std::int64_t kilobytes = 0;
    if (word == key && stream >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

std::int64_t number_in(const char* file, std::int64_t absent) {
  std::ifstream stream(file);
  std::int64_t value = 0;
  return stream >> value ? value : absent;  // "max" is no number: no limit
}

}  // namespace

std::int64_t peak_resident_bytes() { return proc_field("/proc/self/status", "VmHWM:"); }

std::int64_t available_memory_bytes() {
  constexpr auto kNone = std::numeric_limits<std::int64_t>::max();
  const std::int64_t machine = proc_field("/proc/meminfo", "MemAvailable:");
  const std::int64_t limit = number_in("/sys/fs/cgroup/memory.max", kNone);
  const std::int64_t used = number_in("/sys/fs/cgroup/memory.current", 0);
  if (limit == kNone) return machine;
  return std::min(machine, std::max<std::int64_t>(0, limit - used));
}

std::string format_bytes(std::int64_t bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.2f} {}", value, units[unit]);
}

}  // namespace atl
