#include "datasets/dataset_writer.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/files.hpp"
#include "base/memory.hpp"
#include "base/seal.hpp"
#include "datasets/file_list.hpp"

namespace atl {

namespace fs = std::filesystem;

std::string overall_checksum(const Json& files) {
  Json ordered = Json::object();
  for (const char* name : kDatasetFiles) {
    if (files.contains(name)) ordered[name] = files[name];
  }
  return list_checksum(ordered);
}

Json describe_files(const fs::path& folder, bool with_split) {
  Json files = Json::object();
  for (const char* name : kDatasetFiles) {
    if (!with_split && name == std::string_view(kSplitFile)) continue;
    std::error_code error;
    if (fs::exists(folder / name, error)) files[name] = describe_file(folder / name);
  }
  return files;
}

Json dataset_fields(const DatasetInfo& info) {
  Json json = Json::object();
  json["name"] = info.name;
  json["nodes"] = info.nodes;
  json["edges"] = info.edges;
  json["edges_source"] = info.edges_source;
  json["features"] = info.features;
  json["classes"] = info.classes;
  json["splits"] = info.splits;
  add_type_fields(json, info);
  json["directed"] = info.directed;
  json["weighted"] = info.weighted;
  json["task"] = to_string(info.task);
  json["provenance"] = info.provenance;
  return json;
}

void add_type_fields(Json& json, const DatasetInfo& info) {
  if (info.relations > 0) json["relations"] = info.relations;
  if (info.edge_features > 0) json["edge_features"] = info.edge_features;
  if (info.node_types > 0) json["node_types"] = info.node_types;
  if (!info.features_by_type.empty()) json["features_by_type"] = info.features_by_type;
  if (info.links[0] > 0) json["links"] = info.links;
}

std::vector<std::int64_t> read_features_by_type(const Json& json, const DatasetInfo& info,
                                                const fs::path& file) {
  const auto widths = json_field_or<std::vector<std::int64_t>>(json, "features_by_type", file, {});
  if (widths.empty()) return widths;
  if (std::ssize(widths) != info.node_types) {
    fail_input("{}: field 'features_by_type' has {} numbers; allowed is one per type of nodes, {}",
               file.string(), widths.size(), info.node_types);
  }
  for (const std::int64_t width : widths) {
    if (width >= 0 && width <= info.features) continue;
    fail_input(
        "{}: field 'features_by_type' holds {}; allowed are 0 to {}, the columns of features",
        file.string(), width, info.features);
  }
  if (std::ranges::max(widths) != info.features) {
    fail_input("{}: the largest of 'features_by_type' is {}, but there are {} columns of features",
               file.string(), std::ranges::max(widths), info.features);
  }
  return widths;
}

const fs::path& new_dataset_folder(const fs::path& out) {
  if (!is_there(out)) check_outside_datasets(out, "--out");
  return out;
}

DatasetWriter::DatasetWriter(const fs::path& out) : folder_(new_dataset_folder(out)) {}

void DatasetWriter::write_graph(const Csr& csr) { write_graph(csr, !csr.values.empty()); }

void DatasetWriter::write_graph(const Csr& csr, bool weighted) {
  info_.nodes = csr.view().rows();
  info_.edges = csr.view().nnz();
  info_.weighted = weighted;
  write_npy(folder_.path() / "row_ptr.npy", csr.row_ptr);
  write_npy(folder_.path() / "col_idx.npy", csr.col_idx);
  if (info_.weighted) write_npy(folder_.path() / "edge_weights.npy", csr.values);
}

void DatasetWriter::write_node_ids(std::int64_t nodes,
                                   const std::function<std::string(std::int64_t)>& id_of) {
  const fs::path path = folder_.path() / kNodeIdsFile;
  std::ofstream file(path, std::ios::binary);
  for (std::int64_t node = 0; node < nodes; ++node) file << id_of(node) << '\n';
  file.close();
  if (!file) fail_input("{}: can't write: {}", path.string(), std::strerror(errno));
}

void DatasetWriter::write_edge_types(std::span<const std::uint16_t> types, std::int64_t relations) {
  ATOLL_ASSERT(static_cast<std::int64_t>(types.size()) == info_.edges);
  info_.relations = relations;
  write_npy(folder_.path() / "edge_types.npy", types, {info_.edges});
}

void DatasetWriter::write_node_types(std::span<const std::uint16_t> types, std::int64_t count) {
  ATOLL_ASSERT(static_cast<std::int64_t>(types.size()) == info_.nodes);
  info_.node_types = count;
  write_npy(folder_.path() / "node_types.npy", types, {info_.nodes});
}

std::unique_ptr<NpyWriter> DatasetWriter::matrix_writer(const char* name, std::int64_t rows,
                                                        std::int64_t columns,
                                                        const char* what) const {
  std::error_code error;
  const double needed = 4.0 * static_cast<double>(rows) * static_cast<double>(columns);
  const std::filesystem::space_info disk = std::filesystem::space(folder_.path(), error);
  if (!error && needed > static_cast<double>(disk.available)) {
    fail_input("{}: no space left on device: features of {} {} x {} columns need {}, it has {}",
               (folder_.path() / name).string(), rows, what, columns,
               format_bytes(static_cast<std::int64_t>(std::min(needed, 9e18))),
               format_bytes(static_cast<std::int64_t>(disk.available)));
  }
  return std::make_unique<NpyWriter>(folder_.path() / name, npy_descr<float>(),
                                     std::vector<std::int64_t>{rows, columns});
}

std::unique_ptr<NpyWriter> DatasetWriter::write_features(std::int64_t columns) {
  info_.features = columns;
  return matrix_writer("features.npy", info_.nodes, columns, "nodes");
}

void DatasetWriter::set_features_by_type(std::vector<std::int64_t> widths) {
  ATOLL_ASSERT(std::ssize(widths) == info_.node_types);
  info_.features_by_type = std::move(widths);
}

std::unique_ptr<NpyWriter> DatasetWriter::write_edge_features(std::int64_t columns) {
  info_.edge_features = columns;
  return matrix_writer("edge_features.npy", info_.edges, columns, "edges");
}

void DatasetWriter::write_edge_values(const GraphView& graph, std::span<const std::int64_t> entries,
                                      std::int64_t relations) {
  if (relations > 0) {
    std::vector<std::uint16_t> types;
    for (const std::int64_t e : entries) types.push_back(graph.edge_types[e]);
    write_edge_types(types, relations);
  }
  if (const std::int64_t columns = graph.edge_feature_columns; columns > 0) {
    const auto rows = write_edge_features(columns);
    for (const std::int64_t e : entries) {
      rows->write(graph.edge_features.subspan(e * columns, columns));
    }
    rows->close();
  }
}

void DatasetWriter::write_labels(std::span<const std::int32_t> labels,
                                 std::optional<std::int64_t> classes) {
  ATOLL_ASSERT(static_cast<std::int64_t>(labels.size()) == info_.nodes);
  std::int64_t largest = -1;
  for (const std::int32_t label : labels) largest = std::max<std::int64_t>(largest, label);
  if (largest >= kMaxClasses) {
    fail_input("label {} found; allowed are -1 (none) and 0 to {}", largest, kMaxClasses - 1);
  }
  info_.classes = std::max(largest + 1, classes.value_or(0));
  write_npy(folder_.path() / "labels.npy", labels, {info_.nodes});
}

void DatasetWriter::write_multi_labels(std::span<const std::uint8_t> labels, std::int64_t classes) {
  ATOLL_ASSERT(static_cast<std::int64_t>(labels.size()) == info_.nodes * classes);
  info_.classes = classes;
  info_.task = Task::kMultiLabel;
  write_npy(folder_.path() / "labels.npy", labels, {info_.nodes, classes});
}

void DatasetWriter::write_real_labels(std::span<const float> labels, std::int64_t columns) {
  ATOLL_ASSERT(static_cast<std::int64_t>(labels.size()) == info_.nodes * columns);
  info_.classes = columns;
  info_.task = Task::kRegression;
  write_npy(folder_.path() / "labels.npy", labels,
            columns == 1 ? std::vector{info_.nodes} : std::vector{info_.nodes, columns});
}

void DatasetWriter::write_splits(std::span<const std::uint8_t> splits, std::int64_t count) {
  ATOLL_ASSERT(static_cast<std::int64_t>(splits.size()) == info_.nodes * count);
  for (std::int64_t k = 0; k < count; ++k) {
    const auto split = splits.subspan(k * info_.nodes, info_.nodes);
    if (std::find(split.begin(), split.end(), std::uint8_t{0}) == split.end()) {
      fail_input("split {} of '{}' has no training node; at least 1 is needed", k, info_.name);
    }
  }
  info_.splits = count;
  const bool single = count == 1;
  write_npy(folder_.path() / kSplitFile, splits,
            single ? std::vector{info_.nodes} : std::vector{count, info_.nodes});
}

void DatasetWriter::write_links(const std::array<std::vector<std::int64_t>, 3>& sets) {
  info_.task = Task::kLinkPrediction;
  for (std::size_t s = 0; s < sets.size(); ++s) {
    info_.links[s] = static_cast<std::int64_t>(sets[s].size()) / 2;
    write_npy<std::int64_t>(folder_.path() / kLinkFiles[s], sets[s], {info_.links[s], 2});
  }
}

void DatasetWriter::write_link_negatives(const char* name, std::span<const std::int64_t> ids,
                                         std::int64_t columns) {
  write_npy(folder_.path() / name, ids, {static_cast<std::int64_t>(ids.size()) / columns, columns});
}

DatasetInfo DatasetWriter::commit() {
  const Json files = describe_files(folder_.path());
  info_.checksum = overall_checksum(files);
  Json json = Json::object();
  json["format"] = "atoll-dataset";
  json["version"] = 1;
  json.update(dataset_fields(info_));
  json["files"] = files;
  json["checksum"] = info_.checksum;
  add_seal(json);
  write_json(folder_.path() / "dataset.json", json);
  folder_.commit();
  return info_;
}

}  // namespace atl
