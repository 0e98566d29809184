#include "datasets/append.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <tuple>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/log.hpp"
#include "base/parallel.hpp"
#include "base/paths.hpp"
#include "base/progress.hpp"
#include "datasets/append_edges.hpp"
#include "datasets/delta_writer.hpp"
#include "datasets/import_session.hpp"
#include "datasets/node_list.hpp"
#include "datasets/text_table.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

// An array, or text whose rows are in order.
ArrayReader open_rows(const fs::path& path, TableKind kind) {
  if (path.extension() == ".npy") return ArrayReader::open_npy(path);
  const TextTable table(path, kind, {.id = kNoColumn, .label = ""});
  if (!table.words().empty()) {
    fail_input("{}: '{}' is a word; allowed are the numbers that the dataset has for its classes",
               path.string(), table.words().front());
  }
  return table.open(nullptr, table.rows());
}

// Different nodes of the dataset that grows.
std::vector<std::int32_t> read_different_nodes(const std::string& text, std::int64_t nodes,
                                               const std::string& option) {
  std::vector<std::int32_t> ids;
  for (const GlobalId id : read_node_list(text, nodes, option)) {
    ids.push_back(static_cast<std::int32_t>(to_index(id)));
  }
  std::vector<std::int32_t> sorted = ids;
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(sorted);
  if (twice != sorted.end()) fail_option("{} {}: node {} is there twice", option, text, *twice);
  return ids;
}

// Throws Error{kOption} if `out` is `data` or lies inside of a dataset: before all work.
void require_another_folder(const fs::path& data, const fs::path& out) {
  std::error_code error;
  if (fs::equivalent(data, out, error)) {
    fail_option("--out {}: it is the dataset itself, which is not changed; allowed is a new folder",
                out.string());
  }
  new_dataset_folder(out);
}

class Appender {
 public:
  explicit Appender(const AppendOptions& options)
      : options_(options),
        data_(checked(options)),
        writer_(options.out, data_.folder(), data_.info()) {}

  AppendReport run() {
    const fs::path& out = options_.out;
    DatasetInfo& info = writer_.info();
    info.name = options_.name.empty() ? without_slash(out).filename().string() : options_.name;
    count_nodes();
    info.nodes += report_.nodes_added;
    if (info.nodes > kMaxNodes) {
      fail_input("{}: {} nodes; allowed are fewer than 2^31", out.string(), info.nodes);
    }
    write_nodes();
    write_removed_nodes();
    write_changed_features();
    write_edges();
    if (report_.nodes_added + report_.nodes_removed + report_.entries_added +
            report_.entries_removed + report_.entries_replaced + report_.entries_known +
            report_.features_changed ==
        0) {
      fail_option(
          "{}: nothing to append; give --nodes, --edges, --remove-nodes, --remove-edges or "
          "--change-features with something in it",
          options_.data.string());
    }
    note_provenance();
    report_.info = writer_.commit();
    return report_;
  }

 private:
  // Refuses what can't grow, or only into what nobody has meant.
  static Dataset checked(const AppendOptions& options) {
    const fs::path& folder = options.data;
    Dataset data = Dataset::open(folder);
    require_another_folder(folder, options.out);
    if (data.links().there()) {
      fail_input(
          "{}: it has links to predict; append to the dataset that they are from, and "
          "split that again",
          folder.string());
    }
    data.validate_checksums();
    require_imported_form(data);
    return data;
  }

  Json import_option(const char* name) const {
    const Json& provenance = data_.info().provenance;
    if (!provenance.is_object() || !provenance.contains("options")) return nullptr;
    const Json& options = provenance["options"];
    return options.is_object() && options.contains(name) ? options[name] : Json();
  }
  bool was_imported_with(const char* name) const { return import_option(name) == true; }

  void count_nodes() {
    const std::string& nodes = options_.nodes;
    if (nodes.empty()) return;
    const bool number = std::ranges::all_of(nodes, [](char c) { return c >= '0' && c <= '9'; });
    if (number && nodes.size() < 11 && !is_there(nodes)) {
      report_.nodes_added = std::stoll(nodes);
      if (data_.info().features > 0) {
        fail_option(
            "--nodes {}: {} has {} features for each node; give a file with those of the "
            "new ones",
            nodes, options_.data.string(), data_.info().features);
      }
      return;
    }
    const ArrayReader rows = open_rows(nodes, TableKind::kFeatures);
    if (data_.info().features == 0) {
      fail_option("--nodes {}: the nodes of {} have no features; give the number of new nodes",
                  nodes, options_.data.string());
    }
    report_.nodes_added = rows.length(0);
  }

  // New nodes have what the old ones have, and nothing else.
  bool wanted(const char* option, const fs::path& file, bool has, const char* what,
              bool required) const {
    if (!file.empty() && !has) {
      fail_option("{} {}: {} has no {}", option, file.string(), options_.data.string(), what);
    }
    if (!file.empty() && report_.nodes_added == 0) {
      fail_option("{} {}: there are no new nodes; --nodes gives them", option, file.string());
    }
    if (file.empty() && has && required && report_.nodes_added > 0) {
      fail_option("{}: {} has {}, so new nodes need it, too", option, options_.data.string(), what);
    }
    return !file.empty();
  }

  void write_nodes() {
    const DatasetInfo& info = data_.info();
    const bool typed =
        wanted("--node-types", options_.node_types, info.node_types > 0, "types of nodes", true);
    if (typed) write_node_types();
    if (report_.nodes_added > 0 && info.features > 0) {
      write_features(options_.nodes, kAddedFeatures, report_.nodes_added);
      check_widths(kAddedFeatures, types_, options_.nodes);
    }
    if (wanted("--labels", options_.labels, info.classes > 0, "labels", false)) write_labels();
    const bool ids = !data_.node_ids().empty();
    if (wanted("--node-ids", options_.node_ids, ids, "node_ids.txt", true)) write_node_ids();
    if (!options_.split.empty()) write_split();
  }

  void write_node_types() {
    types_ = read_types(open_rows(options_.node_types, TableKind::kTypes), report_.nodes_added);
    const std::int64_t largest = std::int64_t{*std::ranges::max_element(types_)} + 1;
    DatasetInfo& info = writer_.info();
    if (!info.features_by_type.empty() && largest > info.node_types) {
      fail_input("{}: type {} found; allowed are 0 to {}, those whose number of features is known",
                 options_.node_types.string(), largest - 1, info.node_types - 1);
    }
    info.node_types = std::max(info.node_types, largest);
    writer_.write<std::uint16_t>(kAddedNodeTypes, types_, {report_.nodes_added});
  }

  void write_features(const fs::path& source, const char* name, std::int64_t rows) {
    ArrayReader reader = open_rows(source, TableKind::kFeatures);
    const std::int64_t columns = data_.info().features;
    if (reader.dimensions() != 2 || reader.length(0) != rows || reader.length(1) != columns) {
      fail_input("{}: {} x {} features found, {} x {} expected: {} has {} for each node",
                 reader.place(), reader.length(0), reader.length(1), rows, columns,
                 options_.data.string(), columns);
    }
    FeatureWriter writer(std::make_unique<NpyWriter>(writer_.file(name), npy_descr<float>(),
                                                     std::vector{rows, columns}),
                         columns, was_imported_with("row_normalize"), reader.place(), "row");
    write_every_row(std::move(reader), writer, "reading features");
    writer.close();
  }

  // Behind the columns of its type a row is 0.
  void check_widths(const char* name, std::span<const std::uint16_t> types,
                    const std::string& place) const {
    const DatasetInfo& info = data_.info();
    if (info.features_by_type.empty()) return;
    const NpyFile rows(writer_.file(name));
    for (std::size_t i = 0; i < types.size(); ++i) {
      const std::int64_t width = info.features_by_type[types[i]];
      const auto row = rows.values<float>().subspan(i * info.features, info.features);
      const auto other = std::ranges::find_if(row.subspan(width), [](float v) { return v != 0; });
      if (other == row.subspan(width).end()) continue;
      fail_input("{}: row {}, column {} is {}; allowed is 0, as nodes of type {} have {} features",
                 place, i, width + (other - row.subspan(width).begin()), *other, types[i], width);
    }
  }

  void write_labels() {
    ArrayReader reader = open_rows(options_.labels, TableKind::kLabels);
    const DatasetInfo& info = data_.info();
    const std::int64_t n = report_.nodes_added;
    const std::int64_t columns =
        info.task == Task::kMultiLabel || info.task == Task::kRegression ? info.classes : 1;
    if (reader.length(0) != n || reader.length(1) != columns || reader.dimensions() > 2) {
      fail_input(
          "{}: labels {} x {} found, {} x {} expected: the task of {} is {}, with {} of each "
          "node",
          reader.place(), reader.length(0), reader.length(1), n, columns, options_.data.string(),
          to_string(info.task), columns);
    }
    std::vector<double> values(static_cast<std::size_t>(reader.elements()));
    const std::string place = reader.place();
    reader.read(values);
    reader.finish();
    labelled_.assign(static_cast<std::size_t>(n), 0);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (check_label(values[i], place, i)) labelled_[i / static_cast<std::size_t>(columns)] = 1;
    }
    if (info.task == Task::kRegression) {
      write_as<float>(values, std::numeric_limits<float>::quiet_NaN(), are_labels_matrix(),
                      columns);
    } else if (info.task == Task::kMultiLabel) {
      write_as<std::uint8_t>(values, 255, true, columns);
    } else {
      write_as<std::int32_t>(values, -1, false, columns);
      for (const double value : values) {
        labels_.push_back(std::isnan(value) ? -1 : static_cast<std::int32_t>(value));
      }
    }
  }

  // Labels made by hand may be [nodes, 1]. New ones have as many dimensions.
  bool are_labels_matrix() const {
    const fs::path path = data_.folder() / "labels.npy";
    const GrownFolder* const grown = data_.grown();
    const NpyFile labels =
        grown == nullptr ? NpyFile(path) : NpyFile(path, grown->files().at("labels.npy"));
    return labels.header().shape.size() == 2;
  }

  // Whether there is one; none is NaN from now on.
  bool check_label(double& value, const std::string& place, std::size_t element) const {
    const DatasetInfo& info = data_.info();
    const auto fail_here = [&](const std::string& allowed) {
      fail_input(
          "{}: label {} at element {}; allowed are {}, and NaN{} for none: the task of {} is "
          "{}",
          place, value, element, allowed, info.task == Task::kRegression ? "" : " or -1",
          options_.data.string(), to_string(info.task));
    };
    if (info.task == Task::kRegression) {
      if (std::isinf(static_cast<float>(value))) fail_here("numbers within float32");
      return !std::isnan(value);
    }
    const bool many = info.task == Task::kMultiLabel;
    if (value == -1 || (many && value == 255)) value = std::numeric_limits<double>::quiet_NaN();
    if (std::isnan(value)) return false;
    const double largest = many ? 1 : static_cast<double>(info.classes - 1);
    if (value < 0 || value > largest || value != std::floor(value)) {
      fail_here(fmt::format("whole numbers 0 to {}", largest));
    }
    return true;
  }

  template <typename T>
  void write_as(const std::vector<double>& values, T none, bool matrix, std::int64_t columns) {
    std::vector<T> labels;
    labels.reserve(values.size());
    for (const double value : values) {
      labels.push_back(std::isnan(value) ? none : static_cast<T>(value));
    }
    writer_.write<T>(
        kAddedLabels, labels,
        matrix ? std::vector{report_.nodes_added, columns} : std::vector{report_.nodes_added});
  }

  void write_node_ids() {
    std::vector<std::string> known = data_.node_ids();
    const std::size_t before = known.size();
    std::string text;
    LineReader reader(options_.node_ids);
    std::string_view line;
    while (reader.next(line)) {
      if (line.empty())
        fail_input("{}:{}: an id expected, '' found", reader.file(), reader.line_number());
      known.emplace_back(line);
      text += known.back() + '\n';
    }
    if (std::ssize(known) != writer_.info().nodes) {
      fail_input("{}: {} ids found, {} expected, one per new node", options_.node_ids.string(),
                 known.size() - before, report_.nodes_added);
    }
    std::ranges::sort(known);
    const auto twice = std::ranges::adjacent_find(known);
    if (twice != known.end()) {
      fail_input("{}: {} would be the id of two nodes", options_.node_ids.string(), *twice);
    }
    write_atomically(writer_.file(kAddedNodeIds), text);
  }

  void write_split() {
    const std::int64_t n = report_.nodes_added;
    if (n == 0) fail_option("--split {}: there are no new nodes", options_.split);
    const bool file = is_there(options_.split);
    const std::int64_t count = file ? read_roles() : draw_roles();
    if (data_.info().splits > 0) {
      writer_.write<std::uint8_t>(kAddedSplit, roles_, {count, n});
      return;
    }
    // The first split of the chain, in which the old nodes have no role.
    std::vector<std::uint8_t> whole(static_cast<std::size_t>(writer_.info().nodes),
                                    static_cast<std::uint8_t>(Split::kNone));
    std::ranges::copy(roles_, whole.end() - n);
    writer_.write<std::uint8_t>(kSplitFile, whole, {writer_.info().nodes});
  }

  std::int64_t read_roles() {
    ArrayReader reader = open_rows(options_.split, TableKind::kSplit);
    const std::int64_t splits = std::max<std::int64_t>(1, data_.info().splits);
    const std::int64_t n = report_.nodes_added;
    const bool matrix = reader.dimensions() == 2;
    if (reader.elements() != splits * n || (matrix && reader.length(0) != splits) ||
        reader.dimensions() > 2) {
      fail_input("{}: {} values found, {} expected: {} split{} of {} new nodes", reader.place(),
                 reader.elements(), splits * n, splits, splits == 1 ? "" : "s", n);
    }
    std::vector<std::int64_t> values(static_cast<std::size_t>(reader.elements()));
    const std::string place = reader.place();
    reader.read(values);
    reader.finish();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool none = values[i] == -1 || values[i] == 255;
      if (!none && (values[i] < 0 || values[i] > 2)) {
        fail_input("{}: element {} is {}; allowed are 0 train, 1 valid, 2 test, 255 none", place, i,
                   values[i]);
      }
      roles_.push_back(none ? std::uint8_t{255} : static_cast<std::uint8_t>(values[i]));
    }
    return splits;
  }

  std::int64_t draw_roles() {
    const SplitSpec spec = parse_split(options_.split);
    if (labelled_.empty()) {
      fail_option(
          "--split {}: the new nodes have no labels, so there is nothing to split; a file "
          "of roles needs none",
          options_.split);
    }
    if (data_.info().splits > 1) {
      fail_option("--split {}: {} has {} splits; give a file with the roles in each",
                  options_.split, options_.data.string(), data_.info().splits);
    }
    // By the ids that the nodes will have.
    const auto at_end = [&](const auto& values, auto none) {
      std::vector<decltype(none)> whole(static_cast<std::size_t>(data_.info().nodes), none);
      whole.insert(whole.end(), values.begin(), values.end());
      return whole;
    };
    const auto labels = labels_.empty() ? labels_ : at_end(labels_, std::int32_t{-1});
    const auto split = make_split(spec, at_end(labelled_, std::uint8_t{0}), labels, options_.seed);
    roles_.assign(split.begin() + data_.info().nodes, split.end());
    return 1;
  }

  void write_removed_nodes() {
    if (options_.remove_nodes.empty()) return;
    removed_nodes_ =
        read_different_nodes(options_.remove_nodes, data_.info().nodes, "--remove-nodes");
    report_.nodes_removed = std::ssize(removed_nodes_);
    if (!removed_nodes_.empty()) {
      writer_.write<std::int32_t>(kRemovedNodes, removed_nodes_, {report_.nodes_removed});
    }
  }

  void write_changed_features() {
    const std::string& text = options_.change_features;
    if (text.empty()) return;
    const std::size_t comma = text.rfind(',');
    if (comma == text.npos) {
      fail_option("--change-features {}: allowed are nodes and a file of their rows, IDS,ROWS",
                  text);
    }
    if (data_.info().features == 0) {
      fail_option("--change-features {}: the nodes of {} have no features", text,
                  options_.data.string());
    }
    const std::vector<std::int32_t> ids =
        read_different_nodes(text.substr(0, comma), data_.info().nodes, "--change-features");
    const std::string rows = text.substr(comma + 1);
    report_.features_changed = std::ssize(ids);
    write_features(rows, kChangedFeatures, report_.features_changed);
    writer_.write<std::int32_t>(kChangedNodes, ids, {report_.features_changed});
    std::vector<std::uint16_t> types;
    const auto type_of = data_.graph().node_types;
    for (const std::int32_t id : ids) {
      if (!type_of.empty()) types.push_back(type_of[id]);
    }
    check_widths(kChangedFeatures, types, rows);
  }

  void write_edges() {
    const bool reverse = was_imported_with("reverse_relations");
    const bool keep = options_.keep_self_loops || was_imported_with("keep_self_loops");
    EdgeChanges changes(data_, options_, writer_.info().nodes, keep, reverse);
    changes.remove(removed_nodes_);
    changes.add();
    const EdgeChangeCounts& counts = changes.counts();
    report_.entries_added = counts.added;
    report_.entries_known = counts.known;
    report_.entries_replaced = counts.replaced;
    report_.self_loops = counts.self_loops;
    report_.duplicates = counts.duplicates;
    report_.self_loops_kept = keep;
    DatasetInfo& info = writer_.info();
    info.edges_source =
        std::max<std::int64_t>(0, info.edges_source - changes.removed_from_source()) +
        counts.source;
    info.relations = std::max(info.relations, counts.relations);
    report_.entries_removed = changes.write(writer_);
  }

  void note_provenance() {
    Json& provenance = writer_.info().provenance;
    if (!provenance.is_object()) provenance = Json::object();
    Json made = {{"version", ATOLL_VERSION},
                 {"self_loops_found", report_.self_loops},
                 {"self_loops_kept", report_.self_loops_kept},
                 {"duplicates_merged", report_.duplicates},
                 {"edges_known", report_.entries_known}};
    const auto note = [&](const char* key, const std::string& value) {
      if (!value.empty()) made[key] = value;
    };
    note("nodes", options_.nodes);
    note("labels", options_.labels.string());
    note("edges", options_.edges.string());
    note("split", options_.split);
    if (!options_.split.empty()) made["seed"] = options_.seed;
    note("remove_nodes", options_.remove_nodes);
    note("remove_edges", options_.remove_edges.string());
    note("change_features", options_.change_features);
    provenance["appended"] = std::move(made);
  }

  const AppendOptions& options_;
  Dataset data_;
  DeltaWriter writer_;
  AppendReport report_;
  std::vector<std::uint16_t> types_;    // of the new nodes
  std::vector<std::uint8_t> labelled_;  // which of the new nodes are
  std::vector<std::int32_t> labels_;    // of the new nodes, if they are classes
  std::vector<std::uint8_t> roles_;     // [splits, new nodes]
  std::vector<std::int32_t> removed_nodes_;
};

}  // namespace

AppendReport append_dataset(const AppendOptions& options) {
  const Activity activity("appending to " + options.data.string());
  try {
    return Appender(options).run();
  } catch (const fs::filesystem_error& error) {
    fail_input("{}: {}", error.path1().string(), error.code().message());
  } catch (const std::bad_alloc&) {
    fail(ErrorKind::kMemory, "{}: not enough memory to append to it", options.data.string());
  }
}

DatasetInfo compact_dataset(const fs::path& folder, const fs::path& out) {
  const Activity activity("compacting " + folder.string());
  const Dataset dataset = Dataset::open(folder);
  if (dataset.grown() == nullptr) {
    fail_option("{}: it is whole already; a copy of the folder is the same", folder.string());
  }
  require_another_folder(folder, out);
  dataset.validate_checksums();
  DatasetWriter writer(out);
  dataset.validate_merged();
  for (const auto& [name, file] : dataset.grown()->merged()) {
    const auto bytes = file->bytes();
    write_atomically(writer.folder() / name,
                     {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  if (is_there(folder / kClassNamesFile)) {
    fs::copy_file(folder / kClassNamesFile, writer.folder() / kClassNamesFile);
  }
  writer.info() = dataset.info();
  return writer.commit();
}

}  // namespace atl
