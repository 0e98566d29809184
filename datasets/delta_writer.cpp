#include "datasets/delta_writer.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/seal.hpp"
#include "datasets/dataset_writer.hpp"
#include "datasets/delta.hpp"
#include "datasets/file_list.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

// The way from the folder of a delta to its base, so that both can be moved together.
fs::path way_to(const fs::path& base, const fs::path& out) {
  std::error_code error;
  const fs::path to = fs::weakly_canonical(fs::absolute(base), error);
  const fs::path from = fs::weakly_canonical(fs::absolute(out), error);
  const fs::path way = to.lexically_relative(from);
  return way.empty() ? to : way;
}

Json describe_folder(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name != "dataset.json" && name != kClassNamesFile) names.push_back(name);
  }
  std::ranges::sort(names);
  Json files = Json::object();
  for (const std::string& name : names) files[name] = describe_file(folder / name);
  return files;
}

}  // namespace

void DeltaEdges::add(std::int64_t source, std::int64_t target, float weight, std::uint16_t type,
                     std::span<const float> features) {
  sources_.push_back(static_cast<std::int32_t>(source));
  targets_.push_back(static_cast<std::int32_t>(target));
  weights_.push_back(weight);
  types_.push_back(type);
  features_.insert(features_.end(), features.begin(), features.end());
}

DeltaWriter::DeltaWriter(const fs::path& out, const fs::path& folder, const DatasetInfo& base)
    : folder_(out), out_(out), base_folder_(folder), base_(base), info_(base) {
  const fs::path classes = base_folder_ / kClassNamesFile;
  if (is_there(classes)) fs::copy_file(classes, file(kClassNamesFile));
}

void DeltaWriter::write_edges(const DeltaEdges& added, const DeltaEdges& removed,
                              std::int64_t new_ones) {
  edges_added_ = new_ones;
  const auto write_ends = [&](const char* name, const DeltaEdges& edges) {
    NpyWriter writer(file(name), npy_descr<std::int32_t>(), {2, edges.size()});
    writer.write(std::span<const std::int32_t>(edges.sources_));
    writer.write(std::span<const std::int32_t>(edges.targets_));
    writer.close();
  };
  write_ends(kAddedEdges, added);
  const std::int64_t count = added.size();
  if (base_.weighted && count > 0) write<float>(kAddedWeights, added.weights_, {count});
  if (base_.relations > 0 && count > 0) write<std::uint16_t>(kAddedTypes, added.types_, {count});
  if (base_.edge_features > 0 && count > 0) {
    write<float>(kAddedEdgeFeatures, added.features_, {count, base_.edge_features});
  }
  if (removed.size() == 0) return;
  write_ends(kRemovedEdges, removed);
  if (base_.relations > 0) {
    write<std::uint16_t>(kRemovedTypes, removed.types_, {removed.size()});
  }
}

DatasetInfo DeltaWriter::commit() {
  Json json = Json::object();
  json["format"] = kDeltaFormat;
  json["version"] = 1;
  json["nodes"] = info_.nodes;
  json["delta"] = {{"base", way_to(base_folder_, out_).string()},
                   {"base_checksum", base_.checksum},
                   {"nodes_before", base_.nodes},
                   {"edges_added", edges_added_},
                   {"files", describe_folder(folder_.path())}};
  const auto put = [&](const DatasetInfo& info) {
    Json fields = dataset_fields(info);
    // The arrays say it, and are not opened yet.
    if (info.checksum.empty()) {
      for (const char* name : {"edges", "features", "splits", "weighted", "edge_features"}) {
        fields.erase(name);
      }
    }
    json.update(fields);
    write_json(file("dataset.json"), json);
  };
  info_.checksum.clear();
  put(info_);
  const Dataset whole = Dataset::open(folder_.path());
  for (std::int64_t k = 0; k < whole.info().splits; ++k) {
    if (std::ranges::find(whole.split(k), std::uint8_t{0}) != whole.split(k).end()) continue;
    fail_option("{}: split {} would have no training node; at least 1 is needed", out_.string(), k);
  }
  info_ = whole.info();
  put(info_);
  json["files"] = whole.files();
  json["checksum"] = info_.checksum;
  add_seal(json);
  write_json(file("dataset.json"), json);
  folder_.commit();
  return info_;
}

}  // namespace atl
