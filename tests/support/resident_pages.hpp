// How much of a mapped file is in memory.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

namespace atl {

// Kilobytes of files with names that end like this which this process has mapped and in memory.
inline std::int64_t resident_kilobytes(const std::string& name) {
  std::ifstream maps("/proc/self/smaps");
  bool inside = false;
  std::int64_t total = 0;
  for (std::string line; std::getline(maps, line);) {
    // A mapping begins with its addresses, in small letters; what is said of it with a capital.
    const bool heading = line[0] <= '9' || line[0] >= 'a';
    if (heading) inside = line.ends_with(name);
    if (inside && line.starts_with("Rss:")) total += std::stoll(line.substr(4));
  }
  return total;
}

}  // namespace atl
