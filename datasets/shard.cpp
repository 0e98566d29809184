#include "datasets/shard.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/error.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

constexpr int kShardFormat = 1;

Json to_json(const DatasetInfo& info) {
  Json json;
  json["name"] = info.name;
  json["nodes"] = info.nodes;
  json["edges"] = info.edges;
  json["edges_source"] = info.edges_source;
  json["features"] = info.features;
  json["classes"] = info.classes;
  json["splits"] = info.splits;
  json["directed"] = info.directed;
  json["weighted"] = info.weighted;
  json["task"] = to_string(info.task);
  json["provenance"] = info.provenance;
  json["checksum"] = info.checksum;
  return json;
}

DatasetInfo parse_info(const Json& json, const fs::path& file) {
  DatasetInfo info;
  info.name = json_field<std::string>(json, "name", file);
  info.nodes = json_field<std::int64_t>(json, "nodes", file);
  info.edges = json_field<std::int64_t>(json, "edges", file);
  info.edges_source = json_field<std::int64_t>(json, "edges_source", file);
  info.features = json_field<std::int64_t>(json, "features", file);
  info.classes = json_field<std::int64_t>(json, "classes", file);
  info.splits = json_field<std::int64_t>(json, "splits", file);
  info.directed = json_field<bool>(json, "directed", file);
  info.weighted = json_field<bool>(json, "weighted", file);
  info.task = parse_task(json_field<std::string>(json, "task", file), file.string());
  info.provenance = json_field<Json>(json, "provenance", file);
  info.checksum = json_field<std::string>(json, "checksum", file);
  for (const std::int64_t size : {info.nodes, info.features, info.classes, info.splits}) {
    if (size < 0) fail_input("{}: size {} in 'dataset'; allowed is 0 or more", file.string(), size);
  }
  return info;
}

// One direction's arrays; the name of each file starts with the direction.
void write_matrix(const fs::path& folder, const std::string& direction, const LocalMatrix& matrix) {
  const auto write = [&](const char* name, const auto& values) {
    write_npy(folder / (direction + "_" + name + ".npy"), values);
  };
  write("row_ptr", matrix.csr.row_ptr);
  write("col_idx", matrix.csr.col_idx);
  if (!matrix.csr.values.empty()) write("values", matrix.csr.values);
  write("split", matrix.split);
  write("recv_offset", matrix.plan.recv_offset);
  write("send_offset", matrix.plan.send_offset);
  write("send_rows", matrix.plan.send_rows);
  write("halo_ids", matrix.halo_ids);
}

// The rows `ids` of a [*, columns] array.
template <typename T>
void write_rows(const fs::path& path, std::span<const T> values, std::int64_t columns,
                std::span<const GlobalId> ids, bool is_matrix) {
  std::vector<std::int64_t> shape{static_cast<std::int64_t>(ids.size())};
  if (is_matrix) shape.push_back(columns);
  NpyWriter writer(path, npy_descr<T>(), std::move(shape));
  for (const GlobalId id : ids) writer.write(values.subspan(to_index(id) * columns, columns));
  writer.close();
}

void write_splits(const fs::path& path, const Dataset& dataset, std::span<const GlobalId> ids) {
  const std::int64_t splits = dataset.info().splits;
  NpyWriter writer(path, npy_descr<std::uint8_t>(),
                   {splits, static_cast<std::int64_t>(ids.size())});
  std::vector<std::uint8_t> local(ids.size());
  for (std::int64_t k = 0; k < splits; ++k) {
    const auto split = dataset.split(k);
    std::ranges::transform(ids, local.begin(), [&](GlobalId id) { return split[to_index(id)]; });
    writer.write(std::span<const std::uint8_t>(local));
  }
  writer.close();
}

// Opens the arrays of one shard and checks that they fit together.
class ShardReader {
 public:
  ShardReader(fs::path folder, std::vector<NpyFile>& files)
      : folder_(std::move(folder)), files_(files) {}

  template <typename T>
  std::span<const T> array(const std::string& name, std::int64_t length) {
    NpyFile file(folder_ / (name + ".npy"));
    file.require_descr(npy_descr<T>());
    file.require_shape(std::array{length});
    files_.push_back(std::move(file));
    return files_.back().template values<T>();
  }
  std::string place(const std::string& name) const { return (folder_ / (name + ".npy")).string(); }

  // Offsets that start at 0 and never fall; returns them.
  std::span<const std::int64_t> offsets(const std::string& name, std::int64_t length) {
    const auto values = array<std::int64_t>(name, length);
    if (values[0] != 0) fail_input("{}: entry 0 is {}; allowed is 0", place(name), values[0]);
    for (std::size_t i = 1; i < values.size(); ++i) {
      if (values[i] < values[i - 1]) {
        fail_input("{}: entry {} is {}, less than the {} before it", place(name), i, values[i],
                   values[i - 1]);
      }
    }
    return values;
  }
  template <typename T>
  void check_range(const std::string& name, std::span<const T> values, std::int64_t limit) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto value = static_cast<std::int64_t>(values[i]);
      if (value < 0 || value >= limit) {
        fail_input("{}: entry {} is {}; allowed are 0 to {}", place(name), i, value, limit - 1);
      }
    }
  }
  LocalMatrixView matrix(const std::string& direction, const LocalGraphView& graph, bool weighted);

 private:
  void check_columns(const std::string& direction, const LocalMatrixView& matrix,
                     std::int64_t inner) const;

  fs::path folder_;
  std::vector<NpyFile>& files_;
};

LocalMatrixView ShardReader::matrix(const std::string& direction, const LocalGraphView& graph,
                                    bool weighted) {
  const std::int64_t inner = graph.inner();
  const std::string prefix = direction + "_";
  LocalMatrixView matrix;
  matrix.csr.row_ptr = offsets(prefix + "row_ptr", inner + 1);
  const std::int64_t nnz = matrix.csr.row_ptr.back();
  matrix.csr.col_idx = array<std::int32_t>(prefix + "col_idx", nnz);
  if (weighted) matrix.csr.values = array<float>(prefix + "values", nnz);
  matrix.split = array<std::int64_t>(prefix + "split", inner);
  matrix.plan.recv_offset = offsets(prefix + "recv_offset", graph.parts + 1);
  matrix.plan.send_offset = offsets(prefix + "send_offset", graph.parts + 1);
  matrix.plan.send_rows = array<LocalId>(prefix + "send_rows", matrix.plan.send_offset.back());
  matrix.halo_ids = array<GlobalId>(prefix + "halo_ids", matrix.plan.halo_rows());
  check_range(prefix + "send_rows", matrix.plan.send_rows, inner);
  check_range(prefix + "halo_ids", matrix.halo_ids, graph.global_nodes);
  for (const auto* offset : {&matrix.plan.recv_offset, &matrix.plan.send_offset}) {
    if ((*offset)[graph.part] != (*offset)[graph.part + 1]) {
      fail_input(
          "{}: part {} exchanges rows with itself",
          place(prefix + (offset == &matrix.plan.recv_offset ? "recv_offset" : "send_offset")),
          graph.part);
    }
  }
  check_columns(direction, matrix, inner);
  return matrix;
}

void ShardReader::check_columns(const std::string& direction, const LocalMatrixView& matrix,
                                std::int64_t inner) const {
  const std::int64_t columns = inner + matrix.plan.halo_rows();
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

}  // namespace

Shard Shard::open(const fs::path& folder) {
  const fs::path file = folder / "shard.json";
  const Json json = read_json(file);
  const int format = json_field<int>(json, "format", file);
  if (format != kShardFormat) {
    fail_input(
        "{}: format {}; this program reads format {}; remove the partition and make it again",
        file.string(), format, kShardFormat);
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
  if (inner < 1 || inner > std::numeric_limits<std::int32_t>::max() || graph.central < 0 ||
      graph.central > inner) {
    fail_input(
        "{}: {} inner and {} central nodes; allowed are 1 to 2^31 - 1 inner nodes and at most "
        "as many central ones",
        file.string(), inner, graph.central);
  }

  ShardReader reader(folder, shard.files_);
  graph.inner_ids = reader.array<GlobalId>("inner_ids", inner);
  reader.check_range("inner_ids", graph.inner_ids, graph.global_nodes);
  graph.in_degree = reader.array<float>("in_degree", inner);
  graph.has_self_loop = reader.array<std::uint8_t>("has_self_loop", inner);
  graph.forward = reader.matrix("forward", graph, shard.dataset_.weighted);
  graph.out_degree = graph.symmetric ? graph.in_degree : reader.array<float>("out_degree", inner);
  graph.backward =
      graph.symmetric ? graph.forward : reader.matrix("backward", graph, shard.dataset_.weighted);
  shard.open_node_data(folder);
  return shard;
}

void Shard::open_node_data(const fs::path& folder) {
  const std::int64_t inner = graph_.inner();
  if (dataset_.features > 0) {
    features_ = NpyFile(folder / "features.npy");
    features_.require_descr(npy_descr<float>());
    features_.require_shape(std::array{inner, dataset_.features});
  }
  if (dataset_.classes > 0) {
    labels_ = NpyFile(folder / "labels.npy");
    if (dataset_.task == Task::kMultiLabel) {
      labels_.require_descr(npy_descr<std::uint8_t>());
      labels_.require_shape(std::array{inner, dataset_.classes});
    } else {
      labels_.require_descr(npy_descr<std::int32_t>());
      labels_.require_shape(std::array{inner});
    }
  }
  if (dataset_.splits > 0) {
    split_ = NpyFile(folder / "split.npy");
    split_.require_descr(npy_descr<std::uint8_t>());
    split_.require_shape(std::array{dataset_.splits, inner});
  }
}

std::span<const float> Shard::features() const {
  if (dataset_.features == 0) return {};
  return features_.values<float>();
}

std::span<const std::int32_t> Shard::labels() const {
  if (dataset_.classes == 0 || dataset_.task == Task::kMultiLabel) return {};
  return labels_.values<std::int32_t>();
}

std::span<const std::uint8_t> Shard::multi_labels() const {
  if (dataset_.classes == 0 || dataset_.task != Task::kMultiLabel) return {};
  return labels_.values<std::uint8_t>();
}

std::span<const std::uint8_t> Shard::split(std::int64_t index) const {
  if (index < 0 || index >= dataset_.splits) {
    if (dataset_.splits == 0) fail_option("--split-index {}: the dataset has no split", index);
    fail_option("--split-index {}: allowed are 0 to {}", index, dataset_.splits - 1);
  }
  return split_.values<std::uint8_t>().subspan(index * graph_.inner(), graph_.inner());
}

void write_shard(const fs::path& folder, const Dataset& dataset, const LocalGraph& graph) {
  const DatasetInfo& info = dataset.info();
  write_matrix(folder, "forward", graph.forward);
  if (!graph.symmetric) write_matrix(folder, "backward", graph.backward);
  write_npy(folder / "inner_ids.npy", graph.inner_ids);
  write_npy(folder / "in_degree.npy", graph.in_degree);
  if (!graph.symmetric) write_npy(folder / "out_degree.npy", graph.out_degree);
  write_npy(folder / "has_self_loop.npy", graph.has_self_loop);
  const std::span<const GlobalId> ids = graph.inner_ids;
  if (info.features > 0) {
    write_rows(folder / "features.npy", dataset.features(), info.features, ids, true);
  }
  if (info.classes > 0 && info.task == Task::kMultiLabel) {
    write_rows(folder / "labels.npy", dataset.multi_labels(), info.classes, ids, true);
  } else if (info.classes > 0) {
    write_rows(folder / "labels.npy", dataset.labels(), 1, ids, false);
  }
  if (info.splits > 0) write_splits(folder / "split.npy", dataset, ids);

  Json json;
  json["format"] = kShardFormat;
  json["part"] = graph.part;
  json["parts"] = graph.parts;
  json["inner"] = graph.inner_ids.size();
  json["central"] = graph.central;
  json["symmetric"] = graph.symmetric;
  json["dataset"] = to_json(info);
  write_json(folder / "shard.json", json);
}

}  // namespace atl
