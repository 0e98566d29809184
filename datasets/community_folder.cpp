#include "datasets/community_folder.hpp"

#include <algorithm>

#include "base/checksum.hpp"
#include "base/error.hpp"
#include "base/files.hpp"
#include "base/log.hpp"
#include "base/memory.hpp"
#include "base/npy.hpp"
#include "base/progress.hpp"
#include "base/seal.hpp"
#include "datasets/dataset_writer.hpp"
#include "datasets/file_list.hpp"
#include "partition/dealing.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

constexpr int kCommunityFormat = 1;
constexpr const char* kCommunityFile = "communities.npy";
constexpr const char* kCommunityList = "communities.json";

Json identity_of(const Dataset& dataset, int count) {
  const DatasetInfo& info = dataset.info();
  return {{"format", kCommunityFormat}, {"count", count},
          {"nodes", info.nodes},        {"edges", info.edges},
          {"directed", info.directed},  {"dataset", info.checksum}};
}

Json read_description(const fs::path& folder) {
  Json json = read_json(folder / kCommunityList);
  check_seal(json, folder / kCommunityList);
  return json;
}

// The entry of the array in the list of communities that are of this dataset and number.
Json entry_of_array(const fs::path& folder, const Dataset& dataset, int count) {
  const fs::path list = folder / kCommunityList;
  const Json json = read_description(folder);
  const Json identity = identity_of(dataset, count);
  for (const auto& [field, value] : identity.items()) {
    const auto found = json_field<Json>(json, field.c_str(), list);
    if (found == value) continue;
    fail_input("{}: field '{}' is {}; {} expected", list.string(), field, found.dump(),
               value.dump());
  }
  return json_field<Json>(json, "file", list);
}

std::vector<std::int32_t> read_communities(const fs::path& folder, const Dataset& dataset,
                                           int count) {
  const fs::path file = folder / kCommunityFile;
  check_file(file, entry_of_array(folder, dataset, count), folder / kCommunityList);
  const NpyFile array(file);
  array.require_shape(std::vector<std::int64_t>{dataset.info().nodes});
  const auto values = array.values<std::int32_t>();
  return {values.begin(), values.end()};
}

void write_communities(const fs::path& folder, const Dataset& dataset, int count,
                       const std::vector<std::int32_t>& communities) {
  AtomicFolder target(folder, /*replace=*/true);
  write_npy(target.path() / kCommunityFile, communities);
  Json json = identity_of(dataset, count);
  json["name"] = dataset.info().name;
  json["file"] = describe_file(target.path() / kCommunityFile);
  add_seal(json);
  write_json(target.path() / kCommunityList, json);
  target.commit();
}

}  // namespace

fs::path communities_folder(const Dataset& dataset, const fs::path& parts_dir) {
  return (parts_dir.empty() ? dataset.folder() : parts_dir) / "communities";
}

fs::path community_folder(const Dataset& dataset, int count, const fs::path& parts_dir) {
  const std::string text = identity_of(dataset, count).dump();
  return communities_folder(dataset, parts_dir) /
         fmt::format("{}-{:08x}", count, static_cast<std::uint32_t>(checksum(text)));
}

std::vector<std::int32_t> ensure_communities(const Dataset& dataset, int count,
                                             const fs::path& parts_dir) {
  const fs::path folder = community_folder(dataset, count, parts_dir);
  if (is_there(folder)) {
    try {
      return read_communities(folder, dataset, count);
    } catch (const Error& error) {
      log::warn("{}; the communities are made again", error.what());
    }
  }
  const DatasetInfo& info = dataset.info();
  const std::int64_t bytes =
      most_cutting_bytes({info.nodes, info.edges, !info.directed}, count, cluster_options({}));
  log::info("finding {} communities; it takes up to {} of memory beside the graph", count,
            format_bytes(bytes));
  const Activity activity(fmt::format("finding {} communities", count));
  std::vector<std::int32_t> communities = cut_into_clusters(dataset.graph(), count, {});
  try {
    write_communities(folder, dataset, count, communities);
  } catch (const Error& error) {
    log::warn(
        "{}; the communities are made again in the next run; --parts-dir DIR keeps them elsewhere",
        error.what());
  }
  return communities;
}

std::string owner_of_communities(const fs::path& folder) {
  return json_field<std::string>(read_description(folder), "name", folder / kCommunityList);
}

void check_communities(const fs::path& folder, const Dataset& dataset, const fs::path& parts_dir,
                       bool every_byte) {
  const fs::path list = folder / kCommunityList;
  const int count = json_field<int>(read_description(folder), "count", list);
  const Json entry = entry_of_array(folder, dataset, count);
  if (folder.filename() != community_folder(dataset, count, parts_dir).filename()) {
    fail_input("the folder was renamed: training doesn't find it");
  }
  const fs::path file = folder / kCommunityFile;
  every_byte ? check_file(file, entry, list) : check_file_size(file, entry, list);
}

}  // namespace atl
