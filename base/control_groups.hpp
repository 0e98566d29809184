// Where the kernel says what the control groups of this process may use.
#pragma once

#include <filesystem>
#include <limits>
#include <string>
#include <vector>

namespace atl {

// Folders of the groups that limit this process in what `controller` ("cpu", "memory") counts, from
// its own up to the top, of version 1 and 2; a limit in any of them counts. Folders may be missing:
// in a container their paths may be the host's. root: of the file system.
std::vector<std::filesystem::path> control_groups(const std::string& controller,
                                                  const std::filesystem::path& root = "/");

// Processors' worth of time that this process may use, by its control groups; infinite without a
// limit.
double processor_quota(const std::filesystem::path& root = "/");

}  // namespace atl
