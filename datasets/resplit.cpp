#include "datasets/resplit.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/npy.hpp"
#include "datasets/dataset_change.hpp"
#include "datasets/dataset_writer.hpp"
#include "datasets/split.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

std::vector<std::uint8_t> made_split(const Dataset& dataset, const std::string& text,
                                     std::uint64_t seed) {
  if (dataset.info().classes == 0) {
    fail_input("{}: the dataset has no labels, so there is nothing to split",
               dataset.folder().string());
  }
  // A split of damaged labels would look as good as any.
  dataset.validate_checksums();
  dataset.validate_labels();
  std::vector<std::uint8_t> split =
      make_split(parse_split(text), dataset.labelled(), dataset.labels(), seed);
  if (std::ranges::find(split, static_cast<std::uint8_t>(Split::kTrain)) == split.end()) {
    fail_option("--split {}: no training node; {} has {} labelled nodes", text,
                dataset.folder().string(), std::ranges::count(dataset.labelled(), 1));
  }
  return split;
}

}  // namespace

Dataset resplit(const fs::path& folder, const std::string& split, std::uint64_t seed,
                bool replace) {
  {
    const DatasetChange change(folder);
    const Dataset dataset = Dataset::open(folder, /*with_split=*/false);
    std::error_code ignored;
    const Json json = read_json(folder / "dataset.json");
    const bool has_split = fs::exists(folder / kSplitFile, ignored) ||
                           (is_delta(json) && json_field_or<std::int64_t>(
                                                  json, "splits", folder / "dataset.json", 0) > 0);
    if (!replace && has_split) {
      fail_option("{}: the dataset has a split; --replace makes another in its place",
                  folder.string());
    }
    const std::vector<std::uint8_t> nodes = made_split(dataset, split, seed);
    change.replace({kSplitFile, "splits", 1, "split", {{"amounts", split}, {"seed", seed}}},
                   [&](const fs::path& file) { write_npy(file, nodes); });
  }
  return Dataset::open(folder);
}

}  // namespace atl
