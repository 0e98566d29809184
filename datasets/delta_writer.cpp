#include "datasets/delta_writer.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/seal.hpp"
#include "base/text.hpp"
#include "datasets/dataset_writer.hpp"
#include "datasets/delta.hpp"
#include "datasets/delta_fold.hpp"
#include "datasets/file_list.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

// The way from the folder of a delta to its base, so that both can be moved together. Throws
// Error{kInput} if dataset.json can't have it.
fs::path way_to(const fs::path& base, const fs::path& out) {
  std::error_code error;
  const fs::path to = fs::weakly_canonical(fs::absolute(base), error);
  const fs::path from = fs::weakly_canonical(fs::absolute(out), error);
  const fs::path found = to.lexically_relative(from);
  const fs::path way = found.empty() ? to : found;
  if (!is_utf8(way.string())) {
    fail_input(
        "{}: this path is not UTF-8, so that a delta can't name it as its base; give the folder "
        "another name",
        to.string());
  }
  return way;
}

// Names of all arrays of a delta.
std::vector<std::string> files_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name != "dataset.json" && name != kClassNamesFile) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

Json describe_arrays(const fs::path& folder) {
  Json files = Json::object();
  for (const std::string& name : files_in(folder)) files[name] = describe_file(folder / name);
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
    : folder_(new_dataset_folder(out)), out_(out), base_folder_(folder), base_(base), info_(base) {
  way_to(base_folder_, out_);  // refused before all work
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

Json DeltaWriter::description(const Json& files) const {
  Json json = Json::object();
  json["format"] = kDeltaFormat;
  json["version"] = 1;
  json["nodes"] = info_.nodes;
  json["delta"] = {{"base", way_to(base_folder_, out_).string()},
                   {"base_checksum", base_.checksum},
                   {"nodes_before", base_.nodes},
                   {"edges_added", edges_added_},
                   {"files", files}};
  if (!folded_.empty()) json["delta"]["folded"] = folded_;
  Json fields = dataset_fields(info_);
  // The arrays say it, and are not opened yet.
  if (info_.checksum.empty()) {
    for (const char* name : {"edges", "features", "splits", "weighted", "edge_features"}) {
      fields.erase(name);
    }
  }
  json.update(fields);
  return json;
}

void DeltaWriter::write_new_rows(const Dataset& whole) {
  const auto rows_of = [&](const char* name) -> std::optional<NpyFile> {
    const auto found = whole.grown()->files().find(name);
    if (found == whole.grown()->files().end() || nodes_added() == 0) return std::nullopt;
    return NpyFile(whole.folder() / name, found->second);
  };
  const auto write_rows = [&](const char* name, const NpyFile& rows,
                              std::vector<std::int64_t> shape, std::int64_t sets) {
    NpyWriter writer(file(name), rows.header().descr, std::move(shape));
    const std::span<const std::byte> bytes = rows.value_bytes();
    const std::size_t of_set = bytes.size() / static_cast<std::size_t>(sets);
    const std::size_t of_node = of_set / static_cast<std::size_t>(info_.nodes);
    for (std::int64_t k = 0; k < sets; ++k) {
      const auto begin =
          static_cast<std::size_t>(k) * of_set + static_cast<std::size_t>(base_.nodes) * of_node;
      writer.write_bytes(bytes.subspan(begin, static_cast<std::size_t>(nodes_added()) * of_node));
    }
    writer.close();
  };
  for (const auto& [name, added] :
       {std::pair{"features.npy", kAddedFeatures}, std::pair{"labels.npy", kAddedLabels},
        std::pair{"node_types.npy", kAddedNodeTypes}}) {
    const std::optional<NpyFile> rows = rows_of(name);
    if (!rows) continue;
    std::vector<std::int64_t> shape = rows->header().shape;
    shape.front() = nodes_added();
    write_rows(added, *rows, std::move(shape), 1);
  }
  if (const std::optional<NpyFile> roles = rows_of(kSplitFile)) {
    const std::int64_t splits = whole.info().splits;
    write_rows(kAddedSplit, *roles, {splits, nodes_added()}, splits);
  }
}

void DeltaWriter::fold(const Dataset& whole, std::size_t count) {
  const FoldedDelta folded = fold_deltas(whole, count);
  base_folder_ = folded.base;
  base_.checksum = folded.base_checksum;
  base_.nodes = folded.nodes_before;
  folded_ = folded.names;
  // `whole` still reads some of these.
  for (const std::string& name : files_in(folder_.path())) fs::remove(file(name.c_str()));
  write_edges(folded.added, folded.removed, folded.new_ones);
  write_new_rows(whole);
  if (!folded.node_ids.empty()) write_atomically(file(kAddedNodeIds), folded.node_ids);
  const auto count_of = [](const std::vector<std::int32_t>& nodes) { return std::ssize(nodes); };
  if (const auto& nodes = folded.removed_nodes; !nodes.empty()) {
    write<std::int32_t>(kRemovedNodes, nodes, {count_of(nodes)});
  }
  if (const auto& nodes = folded.changed_nodes; !nodes.empty()) {
    write<std::int32_t>(kChangedNodes, nodes, {count_of(nodes)});
    const std::int64_t columns = whole.info().features;
    NpyWriter rows(file(kChangedFeatures), npy_descr<float>(), {count_of(nodes), columns});
    for (const std::int32_t node : nodes) {
      rows.write(whole.features().subspan(static_cast<std::size_t>(node * columns),
                                          static_cast<std::size_t>(columns)));
    }
    rows.close();
  }
}

DatasetInfo DeltaWriter::commit() {
  info_.checksum.clear();
  Json files = describe_arrays(folder_.path());
  write_json(file("dataset.json"), description(files));
  const Dataset whole = Dataset::open(folder_.path());
  for (std::int64_t k = 0; k < whole.info().splits; ++k) {
    if (std::ranges::find(whole.split(k), std::uint8_t{0}) != whole.split(k).end()) continue;
    fail_option("{}: split {} would have no training node; at least 1 is needed", out_.string(), k);
  }
  info_ = whole.info();
  const std::size_t count = deltas_to_fold(whole.grown()->chain());
  if (count > 1) {
    fold(whole, count);
    files = describe_arrays(folder_.path());
  }
  Json json = description(files);
  json["files"] = whole.files();
  json["checksum"] = info_.checksum;
  add_seal(json);
  write_json(file("dataset.json"), json);
  folder_.commit();
  return info_;
}

}  // namespace atl
