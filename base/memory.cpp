#include "base/memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <limits>

namespace atl {

namespace fs = std::filesystem;

namespace {

// The number after `key` in a "Key:   123 kB" file of /proc, in bytes; 0 if it isn't there.
std::int64_t proc_field(const fs::path& file, const std::string& key) {
  std::ifstream stream(file);
  std::string word;
  while (stream >> word) {
    std::int64_t kilobytes = 0;
    if (word == key && stream >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

// What the kernel calls things in each version of control groups.
struct GroupFiles {
  const char* limit;
  const char* used;
  // Fields of memory.stat: pages of the file cache, which count as used, though the kernel drops
  // them before it refuses memory.
  std::array<const char*, 2> cached;
};
constexpr GroupFiles kVersion1 = {
    "memory.limit_in_bytes", "memory.usage_in_bytes", {"total_inactive_file", "total_active_file"}};
constexpr GroupFiles kVersion2 = {"memory.max", "memory.current", {"inactive_file", "active_file"}};
constexpr auto kNoLimit = std::numeric_limits<std::int64_t>::max();

std::int64_t number_in(const fs::path& file, std::int64_t absent) {
  std::ifstream stream(file);
  std::int64_t value = 0;
  return stream >> value ? value : absent;  // "max" is no number: no limit
}

// What one group may still take: its limit, less what it uses and can't give back. A group that
// isn't there (in a container paths may be those of the host) has no limit.
std::int64_t group_room(const fs::path& group, const GroupFiles& files) {
  const std::int64_t limit = number_in(group / files.limit, kNoLimit);
  if (limit == kNoLimit) return kNoLimit;
  std::int64_t used = number_in(group / files.used, 0);
  std::ifstream stat(group / "memory.stat");
  std::string field;
  std::int64_t bytes = 0;
  while (stat >> field >> bytes) {
    if (std::ranges::find(files.cached, field) != files.cached.end()) used -= bytes;
  }
  return std::max<std::int64_t>(0, limit - std::max<std::int64_t>(0, used));
}

// The least room of the group at `path` below `root` and of every group around it, the root's own
// included: each may set a limit, and each counts what is used below it.
std::int64_t room_on_path(const fs::path& root, const std::string& path, const GroupFiles& files) {
  std::int64_t room = group_room(root, files);
  fs::path group = root;
  for (const fs::path& name : fs::path(path).relative_path()) {
    if (name == "..") break;  // a group outside of what this container sees
    group /= name;
    room = std::min(room, group_room(group, files));
  }
  return room;
}

// Whether `word` is one of the words of a list separated by commas.
bool lists(const std::string& words, const std::string& word) {
  return ("," + words + ",").find("," + word + ",") != std::string::npos;
}

}  // namespace

std::int64_t peak_resident_bytes() { return proc_field("/proc/self/status", "VmHWM:"); }

std::int64_t available_memory_bytes(const MemoryRoots& roots) {
  std::int64_t available = proc_field(roots.proc / "meminfo", "MemAvailable:");
  // Lines "number:controllers:/path"; version 2 has number 0 and names no controllers.
  std::ifstream membership(roots.proc / "self" / "cgroup");
  for (std::string line; std::getline(membership, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      available = std::min(available, room_on_path(roots.groups, path, kVersion2));
    } else if (lists(controllers, "memory")) {
      available = std::min(available, room_on_path(roots.groups / "memory", path, kVersion1));
    }
  }
  return available;
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
