// Finds the real graphs that some tests read; they lie beside the checkout and are never committed.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>

namespace atl {

// ATOLL_SHARED_DATA if set, else ../shared/data seen from the working directory (ctest starts tests
// in the repository root). Empty when there is no such folder.
inline std::optional<std::filesystem::path> shared_data() {
  const char* variable = std::getenv("ATOLL_SHARED_DATA");
  const std::filesystem::path path = variable != nullptr ? variable : "../shared/data";
  if (!std::filesystem::is_directory(path)) return std::nullopt;
  return path;
}

}  // namespace atl
