// Paths as users type them.
#pragma once

#include <filesystem>

namespace atl {

// The path without slashes at its end, so that its last part is a name: "data/cora/" is
// "data/cora".
inline std::filesystem::path without_slash(const std::filesystem::path& path) {
  return path.has_filename() ? path : path.parent_path();
}

}  // namespace atl
