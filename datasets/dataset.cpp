#include "datasets/dataset.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/paths.hpp"
#include "base/seal.hpp"
#include "datasets/ascending.hpp"
#include "datasets/class_count.hpp"
#include "datasets/dataset_writer.hpp"
#include "datasets/file_list.hpp"

namespace atl {

namespace fs = std::filesystem;

std::string to_string(Task task) {
  switch (task) {
    case Task::kSingleLabel:
      return "single-label";
    case Task::kMultiLabel:
      return "multi-label";
    case Task::kBinary:
      return "binary";
    case Task::kRegression:
      return "regression";
    case Task::kLinkPrediction:
      return "link-prediction";
  }
  ATOLL_ASSERT(false);
}

Task parse_task(const std::string& text, const std::string& place) {
  for (const Task task : {Task::kSingleLabel, Task::kMultiLabel, Task::kBinary, Task::kRegression,
                          Task::kLinkPrediction}) {
    if (text == to_string(task)) return task;
  }
  fail_input(
      "{}: unknown task '{}'; allowed are single-label, multi-label, binary, regression, "
      "link-prediction",
      place, text);
}

namespace {

std::optional<NpyFile> open_if_there(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return std::nullopt;
  return NpyFile(path);
}

// A hand-made dataset.json may leave out what the arrays say; what it says must agree with them.
void agree(const Json& json, const fs::path& file, const char* field, std::int64_t found) {
  if (!json.contains(field)) return;
  const auto stated = json_field<std::int64_t>(json, field, file);
  if (stated != found) {
    fail_input("{}: field '{}' is {}, but the arrays hold {}", file.string(), field, stated, found);
  }
}

void check_format(const Json& json, const fs::path& file) {
  if (!json.is_object()) fail_input("{}: a JSON object is expected", file.string());
  const auto format = json_field_or<std::string>(json, "format", file, "atoll-dataset");
  const auto version = json_field_or<std::int64_t>(json, "version", file, 1);
  if ((format != "atoll-dataset" && format != kDeltaFormat) || version != 1) {
    fail_input("{}: format '{}' version {}; allowed are 'atoll-dataset' and '{}' version 1",
               file.string(), format, version, kDeltaFormat);
  }
}

// Leaves out what dataset.json says of splits.
void forget_split(Json& json) {
  for (const char* field : {"splits", "checksum"}) json.erase(field);
  if (json.contains("files") && json["files"].is_object()) json["files"].erase(kSplitFile);
}

// Compares the files object of dataset.json, if it has one, with the files that are there. Before
// anything is read, so that what is missing is named, and not what its absence contradicts.
void require_listed_files(const Json& json, const fs::path& file, bool with_split) {
  if (!json.contains("files")) return;
  const Json& files = json["files"];
  if (!files.is_object()) fail_input("{}: field 'files' is not an object", file.string());
  for (const auto& [name, entry] : files.items()) {
    if (std::ranges::find(kDatasetFiles, name) == std::end(kDatasetFiles)) {
      fail_input("{}: 'files' names {}; allowed are {}", file.string(), Json(name).dump(),
                 fmt::join(kDatasetFiles, ", "));
    }
  }
  for (const char* name : kDatasetFiles) {
    const fs::path path = file.parent_path() / name;
    std::error_code error;
    const bool is_split = name == std::string_view(kSplitFile);
    if (!with_split && is_split) continue;
    const bool there = fs::exists(path, error);
    // A split that is not listed was interrupted: field 'splits' is refused with what mends it.
    if (there != files.contains(name) && !(there && is_split)) {
      fail_input("{}: {}", path.string(),
                 there ? "not listed in dataset.json" : "listed in dataset.json, but not there");
    }
  }
}

// The files object of dataset.json, its sizes compared with the files; computed if it is absent.
Json checked_files(const Json& json, const fs::path& file, bool with_split) {
  if (!json.contains("files")) return describe_files(file.parent_path(), with_split);
  const Json& files = json["files"];
  for (const char* name : kDatasetFiles) {
    if (!files.contains(name)) continue;
    const fs::path path = file.parent_path() / name;
    json_field<std::string>(files[name], "xxh3", file);
    check_file_size(path, files[name], file);
  }
  return files;
}

// The same of a delta, whose whole files are in memory.
Json checked_files(const Json& json, const fs::path& file, const GrownFolder& grown) {
  if (!json.contains("files")) return describe_files(grown.merged());
  const Json& files = json["files"];
  if (!files.is_object()) fail_input("{}: field 'files' is not an object", file.string());
  for (const auto& [name, bytes] : grown.files()) {
    const auto entry = json_field<Json>(files, name.c_str(), file);
    json_field<std::string>(entry, "xxh3", file);
    const auto stated = json_field<std::int64_t>(entry, "bytes", file);
    const auto found = static_cast<std::int64_t>(bytes->bytes().size());
    if (stated == found) continue;
    fail_input("{}: {} has {} bytes, but the chain of bases gives {}", file.string(), name, stated,
               found);
  }
  return files;
}

}  // namespace

Json read_dataset_json(const fs::path& folder) {
  const fs::path file = folder / "dataset.json";
  std::error_code error;
  if (!fs::is_directory(folder, error)) fail_input("{}: no such folder", folder.string());
  const bool there = fs::exists(file, error);
  if (error) fail_input("{}: {}", file.string(), error.message());
  if (!there) {
    fail_input("{}: not a dataset folder: it has no dataset.json", folder.string());
  }
  Json json = read_json(file);
  check_format(json, file);
  if (json.contains("seal")) {
    with_remedy("remove the field 'seal' if the change is meant", [&] { check_seal(json, file); });
  }
  return json;
}

std::string Dataset::split_remedy() const {
  return fmt::format("if atoll split {} was interrupted, run it again with --replace",
                     folder_.string());
}

Dataset Dataset::open(const fs::path& folder, bool with_split) {
  const fs::path file = folder / "dataset.json";
  Json json = read_dataset_json(folder);
  if (!with_split) forget_split(json);
  Dataset dataset;
  dataset.folder_ = folder;
  dataset.with_split_ = with_split;
  if (is_delta(json)) {
    // A folder that Atoll has written is as it was then, or the seal would tell.
    std::optional<std::int64_t> edges;
    if (json.contains("seal") && json.contains("edges")) {
      edges = json_field<std::int64_t>(json, "edges", file);
    }
    dataset.grown_ = std::make_shared<const GrownFolder>(read_chain(folder, json, with_split),
                                                         with_split, edges);
  } else {
    require_listed_files(json, file, with_split);
  }
  dataset.open_graph(json);
  dataset.open_node_arrays(json);
  DatasetInfo& info = dataset.info_;
  info.name =
      json_field_or<std::string>(json, "name", file, without_slash(folder).filename().string());
  info.edges_source = json_field_or<std::int64_t>(json, "edges_source", file, info.edges);
  info.provenance = json_field_or<Json>(json, "provenance", file, Json::object());
  dataset.files_ = dataset.grown_ ? checked_files(json, file, *dataset.grown_)
                                  : checked_files(json, file, with_split);
  info.checksum = overall_checksum(dataset.files_);
  const auto stated = json_field_or<std::string>(json, "checksum", file, info.checksum);
  if (stated != info.checksum) {
    fail_input("{}: field 'checksum' is {}, but its list of files gives {}", file.string(), stated,
               info.checksum);
  }
  return dataset;
}

std::optional<NpyFile> Dataset::array(const char* name) const {
  if (!grown_) return open_if_there(folder_ / name);
  const auto found = grown_->files().find(name);
  if (found == grown_->files().end()) return std::nullopt;
  return NpyFile(folder_ / name, found->second);
}

NpyFile Dataset::required_array(const char* name) const {
  if (std::optional<NpyFile> found = grown_ ? array(name) : std::nullopt) return *found;
  return NpyFile(folder_ / name);  // which says that it is not there
}

TypeArray Dataset::type_array(const char* name, std::int64_t length) const {
  if (!grown_) return {folder_ / name, length};
  std::optional<NpyFile> found = array(name);
  return found ? TypeArray(std::move(*found), length) : TypeArray();
}

void Dataset::open_graph(const Json& json) {
  const fs::path file = folder_ / "dataset.json";
  row_ptr_ = required_array("row_ptr.npy");
  if (row_ptr_.header().shape.size() != 1 || row_ptr_.rows() == 0) {
    fail_input("{}: one dimension with nodes + 1 entries is expected", row_ptr_.path().string());
  }
  info_.nodes = row_ptr_.rows() - 1;
  if (info_.nodes == 0 || info_.nodes > std::numeric_limits<std::int32_t>::max()) {
    fail_input("{}: {} nodes; allowed are 1 to 2^31 - 1", row_ptr_.path().string(), info_.nodes);
  }
  col_idx_ = required_array("col_idx.npy");
  col_idx_.require_shape(std::vector<std::int64_t>{-1});
  info_.edges = col_idx_.rows();
  if (!grown_) check_row_ptr();
  agree(json, file, "nodes", info_.nodes);
  agree(json, file, "edges", info_.edges);
  narrow_col_idx();
  open_edge_arrays(json);
  info_.directed = json_field<bool>(json, "directed", file);
}

void Dataset::check_row_ptr() const {
  const auto row_ptr = row_ptr_.values<std::int64_t>();
  if (row_ptr.front() != 0 || row_ptr.back() != info_.edges) {
    fail_input("{}: runs from {} to {}; it must run from 0 to {}, the length of col_idx.npy",
               row_ptr_.path().string(), row_ptr.front(), row_ptr.back(), info_.edges);
  }
  require_ascending(row_ptr, row_ptr_.path().string());
}

void Dataset::open_edge_arrays(const Json& json) {
  const fs::path file = folder_ / "dataset.json";
  if (auto weights = array("edge_weights.npy")) {
    edge_weights_ = std::move(*weights);
    edge_weights_.require_descr("<f4");
    edge_weights_.require_shape(std::vector{info_.edges});
    info_.weighted = true;
  }
  if (json_field_or<bool>(json, "weighted", file, info_.weighted) != info_.weighted) {
    fail_input("{}: field 'weighted' is {}, but edge_weights.npy is {}", file.string(),
               !info_.weighted, info_.weighted ? "there" : "not there");
  }
  edge_types_ = type_array("edge_types.npy", info_.edges);
  info_.relations = edge_types_.count(json, "relations", file);
  if (auto features = array("edge_features.npy")) {
    edge_features_ = std::move(*features);
    edge_features_.require_descr("<f4");
    edge_features_.require_shape(std::vector<std::int64_t>{info_.edges, -1});
    info_.edge_features = edge_features_.columns();
  }
  agree(json, file, "edge_features", info_.edge_features);
}

void Dataset::narrow_col_idx() {
  if (col_idx_.is("<i4")) return;
  if (!col_idx_.is("<i8")) {
    fail_input("{}: element type '{}' found, '<i4' or '<i8' expected", col_idx_.path().string(),
               col_idx_.header().descr);
  }
  const auto wide = col_idx_.values<std::int64_t>();
  narrowed_col_idx_.reserve(wide.size());
  for (std::size_t e = 0; e < wide.size(); ++e) {
    if (wide[e] < 0 || wide[e] >= info_.nodes) {
      fail_input("{}: entry {} is {}; allowed are node ids 0 to {}", col_idx_.path().string(), e,
                 wide[e], info_.nodes - 1);
    }
    narrowed_col_idx_.push_back(static_cast<std::int32_t>(wide[e]));
  }
}

std::vector<std::string> Dataset::node_ids() const {
  const fs::path path = folder_ / kNodeIdsFile;
  std::shared_ptr<const MappedFile> file;
  if (grown_) {
    const auto found = grown_->files().find(kNodeIdsFile);
    if (found != grown_->files().end()) file = found->second;
  } else if (is_there(path)) {
    file = std::make_shared<const MappedFile>(path);
  }
  if (!file) return {};
  const auto bytes = file->bytes();
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::vector<std::string> ids;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == text.npos) fail_input("{}: the last line has no end", path.string());
    ids.emplace_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  if (static_cast<std::int64_t>(ids.size()) != info_.nodes) {
    fail_input("{}: {} lines, {} expected, one per node", path.string(), ids.size(), info_.nodes);
  }
  return ids;
}

void Dataset::open_node_arrays(const Json& json) {
  const fs::path file = folder_ / "dataset.json";
  if (auto features = array("features.npy")) {
    features_ = std::move(*features);
    features_.require_descr("<f4");
    features_.require_shape(std::vector<std::int64_t>{info_.nodes, -1});
    info_.features = features_.columns();
  }
  agree(json, file, "features", info_.features);
  node_types_ = type_array("node_types.npy", info_.nodes);
  info_.node_types = node_types_.count(json, "node_types", file);
  info_.features_by_type = read_features_by_type(json, info_, file);
  if (auto split = with_split_ ? array(kSplitFile) : std::nullopt) {
    split_ = std::move(*split);
    split_.require_descr("|u1");
    const bool single = split_.header().shape.size() == 1;
    split_.require_shape(single ? std::vector{info_.nodes}
                                : std::vector<std::int64_t>{-1, info_.nodes});
    info_.splits = single ? 1 : split_.rows();
  }
  with_remedy(split_remedy(), [&] { agree(json, file, "splits", info_.splits); });
  if (auto labels = array("labels.npy")) {
    labels_ = std::move(*labels);
    open_labels(json);
  } else {
    agree(json, file, "classes", 0);
  }
  open_links(json);
}

void Dataset::open_links(const Json& json) {
  const fs::path file = folder_ / "dataset.json";
  links_ = Links::open(folder_);
  info_.links = links_.counts();
  if (json.contains("links")) {
    const auto stated = json_field<std::array<std::int64_t, 3>>(json, "links", file);
    if (stated != info_.links) {
      fail_input("{}: field 'links' is [{}], but the arrays hold {}", file.string(),
                 fmt::join(stated, ", "), fmt::join(info_.links, ", "));
    }
  }
  for (const auto& [array, there] :
       {std::pair{"labels.npy", info_.classes > 0}, std::pair{kSplitFile, info_.splits > 0}}) {
    if (!links_.there() || !there) continue;
    fail_input("{}: is there beside {}; a dataset has labels of nodes or links to predict",
               (folder_ / array).string(), kLinkFiles[0]);
  }
  const std::string name = to_string(Task::kLinkPrediction);
  const auto task = json_field_or<std::string>(json, "task", file, links_.there() ? name : "");
  if (links_.there() != (task == name)) {
    fail_input("{}: field 'task' is '{}', but {} is {}", file.string(), task, kLinkFiles[0],
               links_.there() ? "there" : "not there");
  }
  if (links_.there()) info_.task = Task::kLinkPrediction;
}

void Dataset::open_labels(const Json& json) {
  const fs::path file = folder_ / "dataset.json";
  const Task usual = labels_.is("|u1")   ? Task::kMultiLabel
                     : labels_.is("<f4") ? Task::kRegression
                                         : Task::kSingleLabel;
  const auto task = json_field_or<std::string>(json, "task", file, to_string(usual));
  info_.task = parse_task(task, file.string());
  if (info_.task == Task::kRegression) {
    labels_.require_descr("<f4");
    const bool one = labels_.header().shape.size() == 1;
    labels_.require_shape(one ? std::vector{info_.nodes}
                              : std::vector<std::int64_t>{info_.nodes, -1});
    info_.classes = labels_.columns();
    agree(json, file, "classes", info_.classes);
    return;
  }
  if (info_.task == Task::kMultiLabel) {
    labels_.require_descr("|u1");
    labels_.require_shape(std::vector<std::int64_t>{info_.nodes, -1});
    info_.classes = labels_.columns();
    agree(json, file, "classes", info_.classes);
    return;
  }
  labels_.require_descr("<i4");
  labels_.require_shape(std::vector{info_.nodes});
  const auto labels = labels_.values<std::int32_t>();
  std::optional<std::int64_t> stated;
  if (json.contains("classes")) stated = json_field<std::int64_t>(json, "classes", file);
  info_.classes =
      class_count(labels, stated, labels_.path().string(), "field 'classes' of dataset.json");
  if (info_.task == Task::kBinary && info_.classes != 2) {
    fail_input("{}: task 'binary' with {} classes; allowed is 2", file.string(), info_.classes);
  }
}

GraphView Dataset::graph() const {
  if (grown_) grown_->merged();
  const std::span<const std::int32_t> columns =
      col_idx_.is("<i4") ? col_idx_.values<std::int32_t>() : narrowed_col_idx_;
  return {{row_ptr_.values<std::int64_t>(), columns,
           info_.weighted ? edge_weights_.values<float>() : std::span<const float>()},
          !info_.directed,
          edge_types_.values(),
          info_.edge_features > 0 ? edge_features_.values<float>() : std::span<const float>(),
          info_.edge_features,
          node_types_.values()};
}

std::span<const float> Dataset::features() const {
  return info_.features > 0 ? features_.values<float>() : std::span<const float>();
}

std::span<const std::int32_t> Dataset::labels() const {
  if (info_.classes == 0 || !labels_.is("<i4")) return {};
  return labels_.values<std::int32_t>();
}

std::span<const std::uint8_t> Dataset::multi_labels() const {
  if (info_.classes == 0 || info_.task != Task::kMultiLabel) return {};
  return labels_.values<std::uint8_t>();
}

std::span<const float> Dataset::real_labels() const {
  if (info_.classes == 0 || info_.task != Task::kRegression) return {};
  return labels_.values<float>();
}

std::span<const std::uint8_t> Dataset::split(std::int64_t index) const {
  if (info_.splits == 0) {
    fail_input("{}: the dataset has no split; atoll split {} --split .6,.2,.2 makes one",
               folder_.string(), folder_.string());
  }
  if (index < 0 || index >= info_.splits) {
    fail_option("--split-index {}: {} has {}", index, folder_.string(),
                info_.splits == 1 ? std::string("one split; allowed is 0")
                                  : fmt::format("{} splits; allowed are 0 to {}", info_.splits,
                                                info_.splits - 1));
  }
  return split_.values<std::uint8_t>().subspan(static_cast<std::size_t>(index * info_.nodes),
                                               static_cast<std::size_t>(info_.nodes));
}

}  // namespace atl
