#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "datasets/dataset_writer.hpp"
#include "datasets/file_list.hpp"
#include "datasets/shard.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

Json to_json(const DatasetInfo& info) {
  Json json = dataset_fields(info);
  json["checksum"] = info.checksum;
  return json;
}

// One direction's arrays; the name of each file starts with the direction.
void write_matrix(const fs::path& folder, const std::string& direction, const DatasetInfo& info,
                  const LocalMatrix& matrix) {
  const auto write = [&](const char* name, const auto& values) {
    write_npy(folder / (direction + "_" + name + ".npy"), values);
  };
  write("row_ptr", matrix.csr.row_ptr);
  write("col_idx", matrix.csr.col_idx);
  if (info.weighted) write("values", matrix.csr.values);
  write("split", matrix.split);
  write("recv_offset", matrix.halo.recv_offset);
  write("send_offset", matrix.halo.send_offset);
  write("send_rows", matrix.halo.send_rows);
  write("halo_ids", matrix.halo_ids);
}

void write_edge_arrays(const fs::path& folder, const DatasetInfo& info, const LocalMatrix& matrix) {
  if (info.relations > 0) write_npy(folder / "forward_edge_types.npy", matrix.edge_types);
  if (info.edge_features > 0) {
    write_npy<float>(folder / "forward_edge_features.npy", matrix.edge_features,
                     {matrix.csr.view().nnz(), info.edge_features});
  }
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

// {name: size and checksum} of every array that was written, by name.
Json describe_arrays(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  Json files = Json::object();
  for (const std::string& name : names) files[name] = describe_file(folder / name);
  return files;
}

}  // namespace

void write_shard(const fs::path& folder, const Dataset& dataset, const LocalGraph& graph) {
  const DatasetInfo& info = dataset.info();
  write_matrix(folder, "forward", info, graph.forward);
  write_edge_arrays(folder, info, graph.forward);
  if (!graph.symmetric) write_matrix(folder, "backward", info, graph.backward);
  write_npy(folder / "inner_ids.npy", graph.inner_ids);
  write_npy(folder / "in_degree.npy", graph.in_degree);
  if (!graph.symmetric) write_npy(folder / "out_degree.npy", graph.out_degree);
  write_npy(folder / "has_self_loop.npy", graph.has_self_loop);
  if (info.node_types > 0) write_npy(folder / "node_types.npy", graph.node_types);
  const std::span<const GlobalId> ids = graph.inner_ids;
  if (info.features > 0) {
    write_rows(folder / "features.npy", dataset.features(), info.features, ids, true);
  }
  if (info.classes > 0 && info.task == Task::kMultiLabel) {
    write_rows(folder / "labels.npy", dataset.multi_labels(), info.classes, ids, true);
  } else if (info.classes > 0 && info.task == Task::kRegression) {
    write_rows(folder / "labels.npy", dataset.real_labels(), info.classes, ids, true);
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
  json["files"] = describe_arrays(folder);
  write_json(folder / "shard.json", json);
}

}  // namespace atl
