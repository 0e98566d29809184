#include "datasets/snapshots.hpp"

#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/log.hpp"
#include "base/parallel.hpp"
#include "base/paths.hpp"
#include "base/progress.hpp"
#include "datasets/array_reader.hpp"
#include "datasets/dataset_writer.hpp"
#include "datasets/delta_writer.hpp"
#include "datasets/file_list.hpp"
#include "datasets/text_reader.hpp"

namespace atl {

namespace fs = std::filesystem;

std::vector<std::int64_t> read_years(ArrayReader reader, std::int64_t nodes) {
  if (reader.elements() != nodes || reader.length(0) != nodes) {
    fail_input("{}: {} numbers found, {} expected, one per node", reader.place(), reader.elements(),
               nodes);
  }
  std::vector<std::int64_t> years(static_cast<std::size_t>(nodes));
  reader.read(years);
  reader.finish();
  return years;
}

std::vector<std::int64_t> read_years(const fs::path& path, std::int64_t nodes) {
  if (path.extension() == ".npy") return read_years(ArrayReader::open_npy(path), nodes);
  constexpr std::int64_t kLargest = std::int64_t{1} << 53;
  std::vector<std::int64_t> years;
  LineReader reader(path);
  std::string_view line;
  while (reader.next(line)) {
    if (is_comment(line)) continue;
    FieldReader fields(line, reader);
    years.push_back(fields.integer(-kLargest, kLargest, "year"));
    fields.expect_end();
  }
  if (std::ssize(years) == nodes) return years;
  fail_input("{}: {} numbers found, {} expected, one per node", path.string(), years.size(), nodes);
}

namespace {

constexpr std::size_t kMostSnapshots = 1000;

// The whole dataset with its nodes in the order of their snapshots.
class SnapshotWriter {
 public:
  SnapshotWriter(const Dataset& whole, const std::vector<std::int64_t>& years, std::int64_t from,
                 const ImportOptions& options, const std::string& file)
      : whole_(whole), graph_(whole.graph()), options_(options), file_(file) {
    order_nodes(years, from);
    order_rows();
    find_roles();
    ids_ = whole.node_ids();
  }

  const std::vector<std::int64_t>& years() const { return years_; }

  DatasetInfo write_first(const fs::path& out) {
    const DatasetInfo& from = whole_.info();
    DatasetWriter writer(out);
    DatasetInfo& info = writer.info();
    const std::int64_t nodes = ends_.front();
    Csr csr;
    std::vector<std::int64_t> entries;
    for (std::int64_t i = 0; i < nodes; ++i) {
      for (std::int64_t e = row_ptr_[i]; e < row_ptr_[i + 1] && sources_[e] < nodes; ++e) {
        csr.col_idx.push_back(sources_[e]);
        entries.push_back(entries_[e]);
        if (from.weighted) csr.values.push_back(graph_.in_edges.values[entries_[e]]);
      }
      csr.row_ptr.push_back(std::ssize(csr.col_idx));
    }
    writer.write_graph(csr, from.weighted);
    writer.write_edge_values(graph_, entries, from.relations);
    if (from.node_types > 0) {
      writer.write_node_types(rows_of(graph_.node_types, 1, 0), from.node_types);
      if (!from.features_by_type.empty()) writer.set_features_by_type(from.features_by_type);
    }
    if (from.features > 0) {
      const auto rows = writer.write_features(from.features);
      rows->write(std::span<const float>(rows_of(whole_.features(), from.features, 0)));
      rows->close();
    }
    if (from.task == Task::kMultiLabel) {
      writer.write_multi_labels(rows_of(whole_.multi_labels(), from.classes, 0), from.classes);
    } else if (from.task == Task::kRegression) {
      writer.write_real_labels(rows_of(whole_.real_labels(), from.classes, 0), from.classes);
    } else if (from.classes > 0) {
      writer.write_labels(rows_of(whole_.labels(), 1, 0), from.classes);
    }
    if (splits_ > 0) {
      with_remedy("--snapshots-from YEAR begins with a later one",
                  [&] { writer.write_splits(roles(0), splits_); });
    }
    writer.write_node_ids(nodes, [&](std::int64_t i) { return id_of(i); });
    info.name = name_of(0);
    info.edges_source = from.directed ? info.edges : (info.edges + 1) / 2;
    info.directed = from.directed;
    info.task = from.task;
    info.provenance = provenance(0);
    return writer.commit();
  }

  // `before`: the folder of the snapshot before, with what was written there: to open it would
  // merge its chain again.
  DatasetInfo write_next(std::size_t k, const fs::path& out, const fs::path& before,
                         const DatasetInfo& base) {
    const DatasetInfo& from = whole_.info();
    DeltaWriter writer(out, before, base);
    DatasetInfo& info = writer.info();
    const std::int64_t n = ends_[k] - ends_[k - 1];
    info.name = name_of(k);
    info.nodes = ends_[k];
    info.provenance = provenance(k);
    if (from.features > 0) {
      writer.write<float>(kAddedFeatures, rows_of(whole_.features(), from.features, k),
                          {n, from.features});
    }
    if (from.node_types > 0) {
      writer.write<std::uint16_t>(kAddedNodeTypes, rows_of(graph_.node_types, 1, k), {n});
    }
    if (from.task == Task::kMultiLabel) {
      writer.write<std::uint8_t>(kAddedLabels, rows_of(whole_.multi_labels(), from.classes, k),
                                 {n, from.classes});
    } else if (from.task == Task::kRegression) {
      writer.write<float>(kAddedLabels, rows_of(whole_.real_labels(), from.classes, k),
                          from.classes > 1 ? std::vector{n, from.classes} : std::vector{n});
    } else if (from.classes > 0) {
      writer.write<std::int32_t>(kAddedLabels, rows_of(whole_.labels(), 1, k), {n});
    }
    if (splits_ > 0) writer.write<std::uint8_t>(kAddedSplit, roles(k), {splits_, n});
    std::string ids;
    for (std::int64_t i = ends_[k - 1]; i < ends_[k]; ++i) ids += id_of(i) + '\n';
    write_atomically(writer.file(kAddedNodeIds), ids);
    const DeltaEdges added = edges_of(k);
    writer.write_edges(added, {}, added.size());
    info.edges_source += from.directed ? added.size() : (added.size() + 1) / 2;
    return writer.commit();
  }

 private:
  void order_nodes(const std::vector<std::int64_t>& years, std::int64_t from) {
    order_.resize(years.size());
    std::iota(order_.begin(), order_.end(), 0);
    const auto year_of = [&](std::int64_t node) { return std::max(years[node], from); };
    std::ranges::stable_sort(order_, {}, year_of);
    rank_.resize(years.size());
    for (std::size_t i = 0; i < order_.size(); ++i) {
      rank_[order_[i]] = static_cast<std::int32_t>(i);
      const std::int64_t year = year_of(order_[i]);
      if (years_.empty() || years_.back() != year) {
        years_.push_back(year);
        ends_.push_back(0);
      }
      ends_.back() = static_cast<std::int64_t>(i) + 1;
    }
    if (years_.size() > kMostSnapshots) {
      fail_input(
          "{}: {} different numbers, each of which would be a snapshot; allowed are {}. "
          "--snapshots-from N joins all up to N, and coarser numbers make fewer",
          file_, years_.size(), kMostSnapshots);
    }
  }

  // Rows and sources in the new numbers, ascending by source and type as those of an import are.
  void order_rows() {
    const CsrView& csr = graph_.in_edges;
    row_ptr_.assign(order_.size() + 1, 0);
    for (std::size_t i = 0; i < order_.size(); ++i) {
      row_ptr_[i + 1] = row_ptr_[i] + std::ssize(csr.row(order_[i]));
    }
    entries_.resize(csr.col_idx.size());
    sources_.resize(csr.col_idx.size());
    parallel_for(std::ssize(order_), 256, [&](std::int64_t i) {
      const auto begin = entries_.begin() + row_ptr_[i];
      const auto end = entries_.begin() + row_ptr_[i + 1];
      std::iota(begin, end, csr.row_ptr[order_[i]]);
      // Types of parallel edges stay in their order.
      std::stable_sort(begin, end, [&](std::int64_t a, std::int64_t b) {
        return rank_[csr.col_idx[a]] < rank_[csr.col_idx[b]];
      });
      for (std::int64_t e = row_ptr_[i]; e < row_ptr_[i + 1]; ++e) {
        sources_[e] = rank_[csr.col_idx[entries_[e]]];
      }
    });
  }

  void find_roles() {
    const auto nodes = static_cast<std::int64_t>(order_.size());
    if (!options_.split) {
      splits_ = whole_.info().splits;
      for (std::int64_t k = 0; k < splits_; ++k) {
        const auto split = whole_.split(k);
        for (const std::int64_t node : order_) roles_.push_back(split[node]);
      }
      return;
    }
    if (whole_.info().classes == 0) {
      fail_option("--split: '{}' has no labels, so there is nothing to split", whole_.info().name);
    }
    splits_ = 1;
    roles_.assign(static_cast<std::size_t>(nodes), static_cast<std::uint8_t>(Split::kNone));
    const std::vector<std::uint8_t> labelled = whole_.labelled();
    for (std::size_t k = 0; k < years_.size(); ++k) {
      std::vector<std::uint8_t> of_year(static_cast<std::size_t>(nodes), 0);
      for (std::int64_t i = begin_of(k); i < ends_[k]; ++i) of_year[i] = labelled[order_[i]];
      const auto drawn = make_split(*options_.split, of_year, {}, options_.seed);
      std::copy(drawn.begin() + begin_of(k), drawn.begin() + ends_[k],
                roles_.begin() + begin_of(k));
    }
  }

  std::int64_t begin_of(std::size_t k) const { return k == 0 ? 0 : ends_[k - 1]; }

  // Rows of the nodes that are new in snapshot k.
  template <typename T>
  std::vector<T> rows_of(std::span<const T> values, std::int64_t columns, std::size_t k) const {
    std::vector<T> rows;
    rows.reserve(static_cast<std::size_t>((ends_[k] - begin_of(k)) * columns));
    for (std::int64_t i = begin_of(k); i < ends_[k]; ++i) {
      const auto row = values.subspan(static_cast<std::size_t>(order_[i] * columns),
                                      static_cast<std::size_t>(columns));
      rows.insert(rows.end(), row.begin(), row.end());
    }
    return rows;
  }

  std::vector<std::uint8_t> roles(std::size_t k) const {
    std::vector<std::uint8_t> roles;
    for (std::int64_t s = 0; s < splits_; ++s) {
      const auto begin = roles_.begin() + s * std::ssize(order_);
      roles.insert(roles.end(), begin + begin_of(k), begin + ends_[k]);
    }
    return roles;
  }

  // Entries of which one end is new in snapshot k, and the other is not newer.
  DeltaEdges edges_of(std::size_t k) const {
    DeltaEdges edges;
    const std::int64_t columns = graph_.edge_feature_columns;
    for (std::int64_t i = 0; i < ends_[k]; ++i) {
      const auto row =
          std::span(sources_).subspan(static_cast<std::size_t>(row_ptr_[i]),
                                      static_cast<std::size_t>(row_ptr_[i + 1] - row_ptr_[i]));
      const std::int64_t least = i < begin_of(k) ? begin_of(k) : 0;
      const auto first = std::ranges::lower_bound(row, least);
      const auto last = std::ranges::lower_bound(row, ends_[k]);
      for (auto at = first; at != last; ++at) {
        const std::int64_t e = entries_[row_ptr_[i] + (at - row.begin())];
        edges.add(*at, i, graph_.in_edges.value(e),
                  graph_.edge_types.empty() ? std::uint16_t{0} : graph_.edge_types[e],
                  columns > 0 ? graph_.edge_features.subspan(e * columns, columns)
                              : std::span<const float>());
      }
    }
    return edges;
  }

  std::string id_of(std::int64_t node) const {
    const std::int64_t before = order_[node];
    return ids_.empty() ? std::to_string(before) : ids_[before];
  }

  std::string name_of(std::size_t k) const {
    return fmt::format("{}@{}", whole_.info().name, years_[k]);
  }

  Json provenance(std::size_t k) const {
    Json made = whole_.info().provenance;
    made["snapshot"] = {{"up_to", years_[k]}, {"file", file_}};
    if (options_.split) {
      made["snapshot"]["split"] = options_.split->amount;
      made["snapshot"]["seed"] = options_.seed;
    }
    return made;
  }

  const Dataset& whole_;
  const GraphView graph_;
  const ImportOptions& options_;
  std::string file_;
  std::vector<std::int64_t> order_;  // the node in the source, by number
  std::vector<std::int32_t> rank_;   // the other way round
  std::vector<std::int64_t> years_;  // of snapshots
  std::vector<std::int64_t> ends_;   // numbers of nodes of snapshots
  std::vector<std::int64_t> row_ptr_, entries_;
  std::vector<std::int32_t> sources_;
  std::int64_t splits_ = 0;
  std::vector<std::uint8_t> roles_;  // [splits, nodes]
  std::vector<std::string> ids_;     // of the source, if it was renumbered
};

// Beside `out`, with its name and '@'.
fs::path folder_of(const fs::path& out, const std::string& which) {
  const fs::path named = without_slash(out);
  const std::string name = named.filename().string();
  if (name.empty() || name == "." || name == "..") {
    fail_option("--out {}: snapshots are named after it; allowed is a path that ends in a name",
                out.string());
  }
  return named.parent_path() / fmt::format("{}@{}", name, which);
}

// Whether a snapshot is there already.
bool is_in_place(const fs::path& out, const DatasetInfo& info) {
  if (!is_there(out)) return false;
  const Json json = read_dataset_json(out);
  const auto found = json_field_or<std::string>(json, "checksum", out / "dataset.json", "");
  if (found == info.checksum) return true;
  fail_option("{}: exists, with another content (checksum {}) than this snapshot ({})",
              out.string(), found, info.checksum);
}

}  // namespace

std::vector<Snapshot> import_snapshots(const std::string& format, const ImportOptions& options,
                                       const SnapshotOptions& snapshots) {
  const bool of_set = format == "ogb" && snapshots.years == "node_year";
  if (!of_set && !is_there(snapshots.years)) {
    fail_input("{}: --snapshots: no such file{}", snapshots.years.string(),
               format == "ogb" ? "; node_year stands for that of the set" : "");
  }
  if (options.split && options.split->per_class) {
    fail_option(
        "--split per-class: can't be drawn for each snapshot; allowed with --snapshots are "
        "three shares such as 0.6,0.2,0.2");
  }
  new_dataset_folder(options.out);
  // All of it is made in a folder that goes when it is not finished.
  const AtomicFolder scratch(folder_of(options.out, "unfinished"));
  ImportOptions of_whole = options;
  of_whole.out = scratch.path() / "whole";
  of_whole.split.reset();
  import_dataset(format, of_whole);
  const Dataset whole = Dataset::open(of_whole.out);
  if (whole.links().there()) {
    fail_option("--snapshots: '{}' has links to predict, which have no snapshots",
                whole.info().name);
  }
  const fs::path years = of_set ? of_whole.out / kNodeYearFile : snapshots.years;
  if (!is_there(years)) {
    fail_input("{}: --snapshots node_year: the set has none", options.source.string());
  }
  const std::vector<std::int64_t> of_nodes = read_years(years, whole.info().nodes);
  const std::int64_t first = snapshots.from.value_or(std::ranges::min(of_nodes));
  SnapshotWriter writer(whole, of_nodes, first, options, snapshots.years.string());
  std::vector<Snapshot> made;
  for (const std::int64_t year : writer.years()) {
    const fs::path folder = folder_of(options.out, std::to_string(year));
    if (is_there(folder) && !is_there(folder / "dataset.json")) {
      fail_option("{}: exists, and is no dataset", folder.string());
    }
    made.push_back({.year = year, .folder = folder, .info = {}});
  }
  Activity activity("writing snapshots", std::ssize(made));
  for (std::size_t k = 0; k < made.size(); ++k) {
    activity.advance_to(static_cast<std::int64_t>(k));
    const auto place = [&](std::size_t at) { return scratch.path() / made[at].folder.filename(); };
    made[k].info = k == 0 ? writer.write_first(place(0))
                          : writer.write_next(k, place(k), place(k - 1), made[k - 1].info);
  }
  // One with another content is refused before any is put in place.
  for (Snapshot& snapshot : made) snapshot.was_there = is_in_place(snapshot.folder, snapshot.info);
  for (const Snapshot& snapshot : made) {
    if (!snapshot.was_there) {
      fs::rename(scratch.path() / snapshot.folder.filename(), snapshot.folder);
    }
  }
  return made;
}

}  // namespace atl
