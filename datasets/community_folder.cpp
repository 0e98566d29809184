#include "datasets/community_folder.hpp"

#include <algorithm>

#include "base/checksum.hpp"
#include "base/error.hpp"
#include "base/files.hpp"
#include "base/log.hpp"
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

std::vector<std::int32_t> read_communities(const fs::path& folder, const Dataset& dataset,
                                           int count) {
  const fs::path list = folder / kCommunityList;
  Json json = read_json(list);
  check_seal(json, list);
  const Json identity = identity_of(dataset, count);
  for (const auto& [field, value] : identity.items()) {
    const auto found = json_field<Json>(json, field.c_str(), list);
    if (found == value) continue;
    fail_input("{}: field '{}' is {}; {} expected", list.string(), field, found.dump(),
               value.dump());
  }
  const fs::path file = folder / kCommunityFile;
  check_file(file, json_field<Json>(json, "file", list), list);
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
  json["file"] = describe_file(target.path() / kCommunityFile);
  add_seal(json);
  write_json(target.path() / kCommunityList, json);
  target.commit();
}

}  // namespace

fs::path community_folder(const Dataset& dataset, int count, const fs::path& parts_dir) {
  const std::string text = identity_of(dataset, count).dump();
  return (parts_dir.empty() ? dataset.folder() : parts_dir) / "communities" /
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

}  // namespace atl
