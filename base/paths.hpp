// Paths as users type them.
#pragma once

#include <filesystem>
#include <string_view>

namespace atl {

// The path without slashes at its end, so that its last part is a name: "data/cora/" is
// "data/cora".
inline std::filesystem::path without_slash(const std::filesystem::path& path) {
  return path.has_filename() ? path : path.parent_path();
}

// Throws Error{kOption} naming `option` if a file or folder of this name lies inside a dataset
// folder, whose commands would take it for a part of the dataset.
void check_outside_datasets(const std::filesystem::path& path, std::string_view option);

}  // namespace atl
