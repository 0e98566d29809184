#include "base/paths.hpp"

#include "base/error.hpp"
#include "base/files.hpp"

namespace atl {

void check_outside_datasets(const std::filesystem::path& path, std::string_view option) {
  const std::filesystem::path dataset = dataset_folder_around(path);
  if (dataset.empty()) return;
  fail_option("{} {}: lies inside the dataset folder {}; choose a place outside", option,
              path.string(), dataset.string());
}

}  // namespace atl
