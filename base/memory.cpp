#include "base/memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
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

std::int64_t number_in(const std::filesystem::path& file, std::int64_t absent) {
  std::ifstream stream(file);
  std::int64_t value = 0;
  return stream >> value ? value : absent;  // "max" is no number: no limit
}

// What the control group may still take: its limit, less what it uses and can't give back. Pages of
// the file cache count as used there, though the kernel drops them before it refuses memory.
std::int64_t group_room(const std::filesystem::path& group) {
  constexpr auto kNone = std::numeric_limits<std::int64_t>::max();
  const std::int64_t limit = number_in(group / "memory.max", kNone);
  if (limit == kNone) return kNone;
  std::int64_t used = number_in(group / "memory.current", 0);
  std::ifstream stat(group / "memory.stat");
  std::string field;
  std::int64_t bytes = 0;
  while (stat >> field >> bytes) {
    if (field == "inactive_file" || field == "active_file") used -= bytes;
  }
  return std::max<std::int64_t>(0, limit - std::max<std::int64_t>(0, used));
}

}  // namespace

std::int64_t peak_resident_bytes() { return proc_field("/proc/self/status", "VmHWM:"); }

std::int64_t available_memory_bytes() {
  std::int64_t available = proc_field("/proc/meminfo", "MemAvailable:");
  // Every group from this process's own up to the root may set a limit (cgroup v2: "0::/path").
  std::ifstream membership("/proc/self/cgroup");
  for (std::string line; std::getline(membership, line);) {
    if (!line.starts_with("0::/")) continue;
    const std::filesystem::path root = "/sys/fs/cgroup";
    std::filesystem::path group = root / line.substr(4);
    for (; group != root && group.has_relative_path(); group = group.parent_path()) {
      available = std::min(available, group_room(group));
    }
  }
  return std::min(available, group_room("/sys/fs/cgroup"));
}

void drop_mapped_pages(std::span<const std::byte> mapped) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<std::uintptr_t>(mapped.data()) + page - 1) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(mapped.data() + mapped.size()) / page * page;
  // Only advice: where it is not taken, the pages stay.
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
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
