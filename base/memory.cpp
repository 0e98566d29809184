#include "base/memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <limits>

#include "base/address_space.hpp"
#include "base/control_groups.hpp"

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

// The kernel's names in each version of control groups.
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

// The bytes that one group may still take: its limit, less what it uses and can't give back. A
// group that isn't there, or is of the other version, has no limit.
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

// About the whole pages in a part.
void advise(std::span<const std::byte> part, int advice) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<std::uintptr_t>(part.data()) + page - 1) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(part.data() + part.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, advice);
}

}  // namespace

std::int64_t resident_bytes() { return proc_field("/proc/self/status", "VmRSS:"); }

std::int64_t peak_resident_bytes() { return proc_field("/proc/self/status", "VmHWM:"); }

std::int64_t available_memory_bytes(const fs::path& root) {
  std::int64_t available = proc_field(root / "proc/meminfo", "MemAvailable:");
  for (const fs::path& group : control_groups("memory", root)) {
    available = std::min({available, group_room(group, kVersion1), group_room(group, kVersion2)});
  }
  if (const auto left = address_space_left()) available = std::min(available, *left);
  return available;
}

void drop_mapped_pages(std::span<const std::byte> mapped) {
  // Only advice: where it is not taken, the pages stay.
  advise(mapped, MADV_DONTNEED);
}

void fetch_mapped_pages(std::span<const std::byte> mapped) { advise(mapped, MADV_WILLNEED); }

void drop_pages(std::span<std::byte> memory) { advise(memory, MADV_DONTNEED); }

std::optional<std::int64_t> parse_bytes(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  std::string_view unit(end, text.data() + text.size());
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"B", 1},           {"KB", 1e3},        {"MB", 1e6},        {"GB", 1e9},       {"TB", 1e12},
      {"KiB", 1LL << 10}, {"MiB", 1LL << 20}, {"GiB", 1LL << 30}, {"TiB", 1LL << 40}};
  for (const auto& [name, bytes] : kUnits) {
    if (unit != name) continue;
    const double all = number * bytes;
    if (all >= 1 && all < 9e18) return static_cast<std::int64_t>(all);
  }
  return std::nullopt;
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
