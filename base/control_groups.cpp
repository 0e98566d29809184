#include "base/control_groups.hpp"

#include <algorithm>
#include <fstream>

#include "base/numbers.hpp"

namespace atl {

namespace {

// The processors that `quota` microseconds of every `period` are; infinite without a limit.
double processors(const std::filesystem::path& file, const std::filesystem::path& period_file) {
  std::ifstream stream(file);
  double quota = -1;
  double period = 0;
  if (!(stream >> quota) || quota < 0) return std::numeric_limits<double>::infinity();
  if (period_file.empty()) {
    stream >> period;
  } else {
    std::ifstream(period_file) >> period;
  }
  return period > 0 ? quota / period : std::numeric_limits<double>::infinity();
}

}  // namespace

std::vector<std::filesystem::path> control_groups(const std::string& controller,
                                                  const std::filesystem::path& root) {
  const std::filesystem::path mounts = root / "sys/fs/cgroup";
  std::vector<std::filesystem::path> folders;
  const auto add = [&](const std::filesystem::path& mount, const std::string& group) {
    std::filesystem::path path = std::filesystem::path(group).relative_path();
    for (; !path.empty(); path = path.parent_path()) folders.push_back(mount / path);
    folders.push_back(mount);
  };
  // Lines are "number:controllers:/group", of version 2 "0::/group".
  std::ifstream membership(root / "proc/self/cgroup");
  for (std::string line; std::getline(membership, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      add(mounts, group);
      add(mounts / "unified", group);
    } else if (std::ranges::count(between_commas(controllers), controller) > 0) {
      add(mounts / controllers, group);
    }
  }
  return folders;
}

double processor_quota(const std::filesystem::path& root) {
  double least = std::numeric_limits<double>::infinity();
  for (const std::filesystem::path& group : control_groups("cpu", root)) {
    least = std::min({least, processors(group / "cpu.max", {}),
                      processors(group / "cpu.cfs_quota_us", group / "cpu.cfs_period_us")});
  }
  return least;
}

}  // namespace atl
