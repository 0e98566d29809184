#include <algorithm>
#include <cstring>
#include <map>
#include <string>
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

// Writes the arrays of one shard, or links those that the older one has.
class ShardWriter {
 public:
  ShardWriter(const fs::path& folder, const DatasetInfo& info, const OlderShard* older)
      : folder_(folder), info_(info), older_(older) {}

  // One direction's arrays; the name of each file starts with the direction.
  void write_matrix(const std::string& direction, const LocalMatrix& matrix);
  void write_edge_arrays(const LocalMatrix& matrix);
  template <typename T>
  void write(const std::string& name, const std::vector<T>& values) {
    write(name, std::span<const T>(values), {static_cast<std::int64_t>(values.size())});
  }
  // The rows `ids` of a [*, columns] array.
  template <typename T>
  void write_rows(const std::string& name, std::span<const T> values, std::int64_t columns,
                  std::span<const GlobalId> ids, bool is_matrix);
  void write_splits(const Dataset& dataset, std::span<const GlobalId> ids);
  // {name: size and checksum} of every array, by name.
  Json files() const {
    Json files = Json::object();
    for (const auto& [name, entry] : files_) files[name] = entry;
    return files;
  }
  WrittenShard counts() const { return {static_cast<int>(files_.size()), linked_}; }

 private:
  template <typename T>
  void write(const std::string& name, std::span<const T> values, std::vector<std::int64_t> shape) {
    write_pieces<T>(name, std::move(shape), [&](const auto& take) { take(values); });
  }
  // pieces(take) calls take(span) for all values, in order; it is called up to twice.
  template <typename T, typename Pieces>
  void write_pieces(const std::string& name, std::vector<std::int64_t> shape,
                    const Pieces& pieces) {
    const std::string file = name + ".npy";
    if (older_ != nullptr && older_->files.contains(file) &&
        same_as_older<T>(older_->folder / file, shape, pieces) && link(file)) {
      files_[file] = older_->files.at(file);
      ++linked_;
      return;
    }
    NpyWriter writer(folder_ / file, npy_descr<T>(), std::move(shape));
    pieces([&](std::span<const T> piece) { writer.write(piece); });
    writer.close();
    files_[file] = describe_file(folder_ / file);
  }
  template <typename T, typename Pieces>
  static bool same_as_older(const fs::path& path, const std::vector<std::int64_t>& shape,
                            const Pieces& pieces) {
    const NpyFile older(path);
    if (!older.is(npy_descr<T>()) || older.header().shape != shape) return false;
    auto rest = std::as_bytes(older.values<T>());
    bool same = true;
    pieces([&](std::span<const T> piece) {
      const auto bytes = std::as_bytes(piece);
      same = same && (bytes.empty() || std::memcmp(bytes.data(), rest.data(), bytes.size()) == 0);
      rest = rest.subspan(bytes.size());
    });
    return same;
  }
  // Folders on other disks and files of other users can't be linked: then the array is written.
  bool link(const std::string& file) const {
    std::error_code error;
    const fs::path path = older_->folder / file;
    if (!fs::is_regular_file(fs::symlink_status(path, error))) return false;
    fs::create_hard_link(path, folder_ / file, error);
    return !error;
  }

  const fs::path& folder_;
  const DatasetInfo& info_;
  const OlderShard* older_;
  std::map<std::string, Json> files_;
  int linked_ = 0;
};

void ShardWriter::write_matrix(const std::string& direction, const LocalMatrix& matrix) {
  const std::string prefix = direction + "_";
  write(prefix + "row_ptr", matrix.csr.row_ptr);
  write(prefix + "col_idx", matrix.csr.col_idx);
  if (info_.weighted) write(prefix + "values", matrix.csr.values);
  write(prefix + "split", matrix.split);
  write(prefix + "recv_offset", matrix.halo.recv_offset);
  write(prefix + "send_offset", matrix.halo.send_offset);
  write(prefix + "send_rows", matrix.halo.send_rows);
  write(prefix + "halo_ids", matrix.halo_ids);
}

void ShardWriter::write_edge_arrays(const LocalMatrix& matrix) {
  if (info_.relations > 0) write("forward_edge_types", matrix.edge_types);
  if (info_.edge_features > 0) {
    write("forward_edge_features", std::span<const float>(matrix.edge_features),
          {matrix.csr.view().nnz(), info_.edge_features});
  }
}

template <typename T>
void ShardWriter::write_rows(const std::string& name, std::span<const T> values,
                             std::int64_t columns, std::span<const GlobalId> ids, bool is_matrix) {
  std::vector<std::int64_t> shape{static_cast<std::int64_t>(ids.size())};
  if (is_matrix) shape.push_back(columns);
  write_pieces<T>(name, std::move(shape), [&](const auto& take) {
    for (const GlobalId id : ids) take(values.subspan(to_index(id) * columns, columns));
  });
}

void ShardWriter::write_splits(const Dataset& dataset, std::span<const GlobalId> ids) {
  std::vector<std::uint8_t> local(ids.size());
  write_pieces<std::uint8_t>(
      "split", {info_.splits, static_cast<std::int64_t>(ids.size())}, [&](const auto& take) {
        for (std::int64_t k = 0; k < info_.splits; ++k) {
          const auto split = dataset.split(k);
          std::ranges::transform(ids, local.begin(),
                                 [&](GlobalId id) { return split[to_index(id)]; });
          take(std::span<const std::uint8_t>(local));
        }
      });
}

}  // namespace

WrittenShard write_shard(const fs::path& folder, const Dataset& dataset, const LocalGraph& graph,
                         const OlderShard* older) {
  const DatasetInfo& info = dataset.info();
  ShardWriter writer(folder, info, older);
  writer.write_matrix("forward", graph.forward);
  writer.write_edge_arrays(graph.forward);
  if (!graph.symmetric) writer.write_matrix("backward", graph.backward);
  writer.write("inner_ids", graph.inner_ids);
  writer.write("in_degree", graph.in_degree);
  if (!graph.symmetric) writer.write("out_degree", graph.out_degree);
  writer.write("has_self_loop", graph.has_self_loop);
  if (info.node_types > 0) writer.write("node_types", graph.node_types);
  const std::span<const GlobalId> ids = graph.inner_ids;
  if (info.features > 0) {
    writer.write_rows("features", dataset.features(), info.features, ids, true);
  }
  if (info.classes > 0 && info.task == Task::kMultiLabel) {
    writer.write_rows("labels", dataset.multi_labels(), info.classes, ids, true);
  } else if (info.classes > 0 && info.task == Task::kRegression) {
    writer.write_rows("labels", dataset.real_labels(), info.classes, ids, true);
  } else if (info.classes > 0) {
    writer.write_rows("labels", dataset.labels(), 1, ids, false);
  }
  if (info.splits > 0) writer.write_splits(dataset, ids);

  Json json;
  json["format"] = kShardFormat;
  json["part"] = graph.part;
  json["parts"] = graph.parts;
  json["inner"] = graph.inner_ids.size();
  json["central"] = graph.central;
  json["symmetric"] = graph.symmetric;
  json["dataset"] = to_json(info);
  json["files"] = writer.files();
  write_json(folder / "shard.json", json);
  return writer.counts();
}

}  // namespace atl
