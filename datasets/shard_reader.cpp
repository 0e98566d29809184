#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.hpp"
#include "datasets/ascending.hpp"
#include "datasets/dataset_writer.hpp"
#include "datasets/file_list.hpp"
#include "datasets/shard.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

DatasetInfo parse_info(const Json& json, const fs::path& file) {
  DatasetInfo info;
  info.name = json_field<std::string>(json, "name", file);
  info.nodes = json_field<std::int64_t>(json, "nodes", file);
  info.edges = json_field<std::int64_t>(json, "edges", file);
  info.edges_source = json_field<std::int64_t>(json, "edges_source", file);
  info.features = json_field<std::int64_t>(json, "features", file);
  info.classes = json_field<std::int64_t>(json, "classes", file);
  info.splits = json_field<std::int64_t>(json, "splits", file);
  info.relations = json_field_or<std::int64_t>(json, "relations", file, 0);
  info.edge_features = json_field_or<std::int64_t>(json, "edge_features", file, 0);
  info.node_types = json_field_or<std::int64_t>(json, "node_types", file, 0);
  info.features_by_type = read_features_by_type(json, info, file);
  info.links = json_field_or<std::array<std::int64_t, 3>>(json, "links", file, {});
  info.directed = json_field<bool>(json, "directed", file);
  info.weighted = json_field<bool>(json, "weighted", file);
  info.task = parse_task(json_field<std::string>(json, "task", file), file.string());
  info.provenance = json_field<Json>(json, "provenance", file);
  info.checksum = json_field<std::string>(json, "checksum", file);
  for (const std::int64_t size : {info.nodes, info.features, info.classes, info.splits,
                                  info.relations, info.edge_features, info.node_types}) {
    if (size < 0) fail_input("{}: size {} in 'dataset'; allowed is 0 or more", file.string(), size);
  }
  if (info.nodes > std::numeric_limits<std::int32_t>::max()) {
    fail_input("{}: {} nodes; allowed are up to 2^31 - 1", file.string(), info.nodes);
  }
  return info;
}

}  // namespace

// Opens the files of one shard, each compared with its checksum, and checks that they fit together.
class ShardReader {
 public:
  ShardReader(fs::path folder, const Json& json, Shard& shard)
      : folder_(std::move(folder)),
        listed_(json_field<Json>(json, "files", list())),
        shard_(shard) {}

  void read_graph(std::int64_t inner);
  void read_node_data();

 private:
  fs::path list() const { return folder_ / "shard.json"; }
  fs::path path(const std::string& name) const { return folder_ / (name + ".npy"); }
  std::string place(const std::string& name) const { return path(name).string(); }

  template <typename T>
  std::span<const T> array(const std::string& name, std::vector<std::int64_t> shape) {
    const fs::path file = path(name);
    check_file(file, json_field<Json>(listed_, file.filename().c_str(), list()), list());
    NpyFile opened(file);
    opened.require_descr(npy_descr<T>());
    opened.require_shape(shape);
    shard_.files_.push_back(std::move(opened));
    return shard_.files_.back().template values<T>();
  }

  // Offsets that start at 0 and never fall; returns them.
  std::span<const std::int64_t> offsets(const std::string& name, std::int64_t length) {
    const auto values = array<std::int64_t>(name, {length});
    if (values[0] != 0) fail_input("{}: entry 0 is {}; allowed is 0", place(name), values[0]);
    require_ascending(values, place(name));
    return values;
  }
  template <typename T>
  void check_range(const std::string& name, std::span<const T> values, std::int64_t lowest,
                   std::int64_t limit) const {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto value = static_cast<std::int64_t>(values[i]);
      if (value < lowest || value >= limit) {
        fail_input("{}: entry {} is {}; allowed are {} to {}", place(name), i, value, lowest,
                   limit - 1);
      }
    }
  }
  // The values 0 to most, and 255 for none.
  void check_codes(const std::string& name, std::span<const std::uint8_t> values,
                   std::uint8_t most) const {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] <= most || values[i] == 255) continue;
      fail_input("{}: entry {} is {}; allowed are 0 to {} and 255", place(name), i, values[i],
                 most);
    }
  }
  void mark(const std::string& name, std::span<const GlobalId> ids, std::vector<bool>& taken) const;
  LocalMatrixView matrix(const std::string& direction, std::vector<bool>& taken);
  void read_edge_arrays();
  void check_columns(const std::string& direction, const LocalMatrixView& matrix) const;

  fs::path folder_;
  Json listed_;
  Shard& shard_;
};

// Sets the bits of `ids`, of which none may be set before: no node is held twice.
void ShardReader::mark(const std::string& name, std::span<const GlobalId> ids,
                       std::vector<bool>& taken) const {
  check_range(name, ids, 0, static_cast<std::int64_t>(taken.size()));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (taken[to_index(ids[i])]) {
      fail_input("{}: entry {} is {}, a node that this part holds already", place(name), i,
                 to_index(ids[i]));
    }
    taken[to_index(ids[i])] = true;
  }
}

LocalMatrixView ShardReader::matrix(const std::string& direction, std::vector<bool>& taken) {
  const LocalGraphView& graph = shard_.graph_;
  const std::int64_t inner = graph.inner();
  const std::string prefix = direction + "_";
  LocalMatrixView matrix;
  matrix.csr.row_ptr = offsets(prefix + "row_ptr", inner + 1);
  const std::int64_t nnz = matrix.csr.row_ptr.back();
  matrix.csr.col_idx = array<std::int32_t>(prefix + "col_idx", {nnz});
  if (shard_.dataset_.weighted) matrix.csr.values = array<float>(prefix + "values", {nnz});
  matrix.split = array<std::int64_t>(prefix + "split", {inner});
  matrix.halo.recv_offset = offsets(prefix + "recv_offset", graph.parts + 1);
  matrix.halo.send_offset = offsets(prefix + "send_offset", graph.parts + 1);
  matrix.halo.send_rows = array<LocalId>(prefix + "send_rows", {matrix.halo.send_offset.back()});
  matrix.halo_ids = array<GlobalId>(prefix + "halo_ids", {matrix.halo.halo_rows()});
  check_range(prefix + "send_rows", matrix.halo.send_rows, 0, inner);
  mark(prefix + "halo_ids", matrix.halo_ids, taken);
  for (const GlobalId id : matrix.halo_ids) taken[to_index(id)] = false;
  for (const auto* offset : {&matrix.halo.recv_offset, &matrix.halo.send_offset}) {
    if ((*offset)[graph.part] != (*offset)[graph.part + 1]) {
      fail_input(
          "{}: part {} exchanges rows with itself",
          place(prefix + (offset == &matrix.halo.recv_offset ? "recv_offset" : "send_offset")),
          graph.part);
    }
  }
  check_columns(direction, matrix);
  return matrix;
}

void ShardReader::read_edge_arrays() {
  const DatasetInfo& info = shard_.dataset_;
  LocalMatrixView& matrix = shard_.graph_.forward;
  const std::int64_t nnz = matrix.csr.nnz();
  if (info.relations > 0) {
    matrix.edge_types = array<std::uint16_t>("forward_edge_types", {nnz});
    check_range("forward_edge_types", matrix.edge_types, 0, info.relations);
  }
  if (info.edge_features > 0) {
    matrix.edge_feature_columns = info.edge_features;
    matrix.edge_features =
        array<float>("forward_edge_features", {nnz, matrix.edge_feature_columns});
  }
}

void ShardReader::check_columns(const std::string& direction, const LocalMatrixView& matrix) const {
  const std::int64_t inner = shard_.graph_.inner();
  const std::int64_t columns = inner + matrix.halo.halo_rows();
  for (std::int64_t i = 0; i < inner; ++i) {
    const std::int64_t begin = matrix.csr.row_ptr[i];
    const std::int64_t end = matrix.csr.row_ptr[i + 1];
    const std::int64_t split = matrix.split[i];
    if (split < begin || split > end) {
      fail_input("{}: entry {} is {}; allowed are {} to {}", place(direction + "_split"), i, split,
                 begin, end);
    }
    for (std::int64_t e = begin; e < end; ++e) {
      const std::int32_t column = matrix.csr.col_idx[e];
      const std::int64_t low = e < split ? 0 : inner;
      const std::int64_t high = e < split ? inner : columns;
      if (column < low || column >= high) {
        fail_input("{}: entry {} (row {}) is {}; allowed are {} to {}",
                   place(direction + "_col_idx"), e, i, column, low, high - 1);
      }
    }
  }
}

void ShardReader::read_graph(std::int64_t inner) {
  LocalGraphView& graph = shard_.graph_;
  std::vector<bool> taken(graph.global_nodes);
  graph.inner_ids = array<GlobalId>("inner_ids", {inner});
  mark("inner_ids", graph.inner_ids, taken);
  graph.in_degree = array<float>("in_degree", {inner});
  graph.has_self_loop = array<std::uint8_t>("has_self_loop", {inner});
  graph.forward = matrix("forward", taken);
  read_edge_arrays();
  if (shard_.dataset_.node_types > 0) {
    graph.node_types = array<std::uint16_t>("node_types", {inner});
    check_range("node_types", graph.node_types, 0, shard_.dataset_.node_types);
  }
  graph.out_degree = graph.symmetric ? graph.in_degree : array<float>("out_degree", {inner});
  graph.backward = graph.symmetric ? graph.forward : matrix("backward", taken);
}

void ShardReader::read_node_data() {
  const DatasetInfo& info = shard_.dataset_;
  const std::int64_t inner = shard_.graph_.inner();
  if (info.features > 0) shard_.features_ = array<float>("features", {inner, info.features});
  if (info.classes > 0 && info.task == Task::kMultiLabel) {
    shard_.multi_labels_ = array<std::uint8_t>("labels", {inner, info.classes});
    check_codes("labels", shard_.multi_labels_, 1);
  } else if (info.classes > 0 && info.task == Task::kRegression) {
    shard_.real_labels_ = array<float>("labels", {inner, info.classes});
    const auto infinite =
        std::ranges::find_if(shard_.real_labels_, [](float value) { return std::isinf(value); });
    if (infinite != shard_.real_labels_.end()) {
      fail_input("{}: entry {} is {}; allowed are finite numbers, and NaN for none",
                 place("labels"), infinite - shard_.real_labels_.begin(), *infinite);
    }
  } else if (info.classes > 0) {
    shard_.labels_ = array<std::int32_t>("labels", {inner});
    check_range("labels", shard_.labels_, -1, info.classes);
  }
  if (info.splits > 0) {
    shard_.splits_ = array<std::uint8_t>("split", {info.splits, inner});
    check_codes("split", shard_.splits_, 2);
  }
}

Shard Shard::open(const fs::path& folder, const Json& listed) {
  const fs::path file = folder / "shard.json";
  check_file(file, listed, folder.parent_path() / "partition.json");
  const Json json = read_json(file);
  const int format = json_field<int>(json, "format", file);
  if (format != kShardFormat) {
    fail_input("{}: format {}; this program reads format {}", file.string(), format, kShardFormat);
  }
  Shard shard;
  shard.dataset_ = parse_info(json_field<Json>(json, "dataset", file), file);
  LocalGraphView& graph = shard.graph_;
  graph.part = json_field<int>(json, "part", file);
  graph.parts = json_field<int>(json, "parts", file);
  graph.global_nodes = shard.dataset_.nodes;
  graph.central = json_field<std::int64_t>(json, "central", file);
  graph.symmetric = json_field<bool>(json, "symmetric", file);
  const auto inner = json_field<std::int64_t>(json, "inner", file);
  if (graph.parts < 1 || graph.part < 0 || graph.part >= graph.parts) {
    fail_input("{}: part {} of {}", file.string(), graph.part, graph.parts);
  }
  if (inner < 1 || inner > graph.global_nodes || graph.central < 0 || graph.central > inner) {
    fail_input(
        "{}: {} inner and {} central nodes; allowed are 1 to {} inner nodes and at most as many "
        "central ones",
        file.string(), inner, graph.central, graph.global_nodes);
  }
  ShardReader reader(folder, json, shard);
  reader.read_graph(inner);
  reader.read_node_data();
  return shard;
}

}  // namespace atl
