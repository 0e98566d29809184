#include "datasets/resplit.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/seal.hpp"
#include "datasets/dataset_writer.hpp"
#include "datasets/file_list.hpp"
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

void write_split_file(const fs::path& path, std::span<const std::uint8_t> split) {
  std::string bytes = make_npy_header(npy_descr<std::uint8_t>(),
                                      std::vector{static_cast<std::int64_t>(split.size())});
  bytes.append(reinterpret_cast<const char*>(split.data()), split.size());
  write_atomically(path, bytes);
}

}  // namespace

Dataset resplit(const fs::path& folder, const std::string& split, std::uint64_t seed,
                bool replace) {
  const fs::path file = folder / "dataset.json";
  {
    const Dataset dataset = Dataset::open(folder, /*with_split=*/false);
    std::error_code ignored;
    if (!replace && fs::exists(folder / kSplitFile, ignored)) {
      fail_option("{}: the dataset has a split; --replace makes another in its place",
                  folder.string());
    }
    const std::vector<std::uint8_t> nodes = made_split(dataset, split, seed);
    Json json = read_json(file);
    if (!json.contains("files")) json["files"] = describe_files(folder, /*with_split=*/false);
    write_split_file(folder / kSplitFile, nodes);
    json["splits"] = 1;
    Json& provenance = json["provenance"];
    if (provenance.is_null() || provenance.is_object())
      provenance["split"] = {{"amounts", split}, {"seed", seed}};
    json["files"][kSplitFile] = describe_file(folder / kSplitFile);
    json["checksum"] = overall_checksum(json["files"]);
    add_seal(json);
    write_json(file, json);
  }
  return Dataset::open(folder);
}

}  // namespace atl
