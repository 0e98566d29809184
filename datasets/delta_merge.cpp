// A chain of deltas and its base as one: the bytes of the files that a whole folder would hold.
#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <tuple>

#include "base/error.hpp"
#include "base/parallel.hpp"
#include "datasets/dataset.hpp"
#include "datasets/dataset_writer.hpp"
#include "datasets/delta.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

// An array in memory, as its file would be.
struct GrownArray {
  std::shared_ptr<MappedFile> file;
  std::byte* values = nullptr;

  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(values);
  }
};

GrownArray new_array(const char* descr, std::vector<std::int64_t> shape) {
  const std::string text = make_npy_header(descr, shape);
  const NpyHeader header{.descr = descr, .shape = std::move(shape)};
  const std::size_t bytes = static_cast<std::size_t>(header.elements()) * header.item_bytes();
  GrownArray array{std::make_shared<MappedFile>(MappedFile::grown(text.size() + bytes))};
  std::byte* begin = array.file->writable().data();
  std::memcpy(begin, text.data(), text.size());
  array.values = begin + text.size();
  return array;
}

// The array of a file with more rows, which are 0.
GrownArray grown_array(const NpyFile& old, std::vector<std::int64_t> shape) {
  const std::string& descr = old.header().descr;
  const std::string text = make_npy_header(descr, shape);
  const auto old_bytes =
      static_cast<std::size_t>(old.header().elements()) * old.header().item_bytes();
  if (old.header().data_offset != text.size()) {  // of another writer
    GrownArray array = new_array(descr.c_str(), std::move(shape));
    std::memcpy(array.values, old.value_bytes().data(), old_bytes);
    return array;
  }
  const NpyHeader header{.descr = descr, .shape = std::move(shape)};
  const std::size_t bytes = static_cast<std::size_t>(header.elements()) * header.item_bytes();
  GrownArray array{
      std::make_shared<MappedFile>(MappedFile::grown(text.size() + bytes, old.path()))};
  std::byte* begin = array.file->writable().data();
  std::memcpy(begin, text.data(), text.size());
  array.values = begin + text.size();
  return array;
}

// The first `rows` rows of a [rows, ...] array are there before; the others and some of these are
// set by the deltas.
class NodeArrays {
 public:
  NodeArrays(const Chain& chain, const Dataset& base, WholeFiles& files)
      : chain_(chain), base_(base), files_(files), nodes_(chain.deltas.back().nodes) {}

  void features() {
    Start start = start_of("features.npy", kAddedFeatures);
    if (!start.array) return;
    start.array->require_descr("<f4");
    const std::int64_t columns = start.array->columns();
    const GrownArray grown = grow(start, {nodes_, columns}, kChangedNodes);
    if (!grown.file) return;
    const std::size_t row = sizeof(float) * static_cast<std::size_t>(columns);
    each_after(start, [&](const Delta& delta) {
      if (delta.nodes_added() > 0) {
        const NpyFile& added = required(delta, kAddedFeatures, "<f4");
        added.require_shape(std::vector{delta.nodes_added(), columns});
        copy_rows(grown, added, row, delta.nodes_before);
      }
      const NpyFile* changed = delta.find(kChangedFeatures);
      if (changed == nullptr) return;
      changed->require_shape(std::vector{delta.rows_of(kChangedNodes), columns});
      const auto ids = delta.find(kChangedNodes)->values<std::int32_t>();
      const auto values = changed->values<float>();
      for (std::size_t k = 0; k < ids.size(); ++k) {
        std::memcpy(grown.values + static_cast<std::size_t>(ids[k]) * row,
                    values.data() + k * static_cast<std::size_t>(columns), row);
      }
    });
  }

  void node_types() {
    Start start = start_of("node_types.npy", kAddedNodeTypes);
    if (!start.array) return;
    start.array->require_descr("<u2");
    const GrownArray grown = grow(start, {nodes_}, nullptr);
    if (!grown.file) return;
    each_after(start, [&](const Delta& delta) {
      if (delta.nodes_added() == 0) return;
      const NpyFile& added = required(delta, kAddedNodeTypes, "<u2");
      added.require_shape(std::vector{delta.nodes_added()});
      copy_rows(grown, added, sizeof(std::uint16_t), delta.nodes_before);
    });
  }

  void labels() {
    Start start = start_of("labels.npy", kAddedLabels);
    if (!start.array) return;
    std::vector<std::int64_t> shape = start.array->header().shape;
    shape.front() = nodes_;
    const GrownArray grown = grow(start, shape, kRemovedNodes);
    if (!grown.file) return;
    const std::size_t item = start.array->header().item_bytes();
    const auto columns = static_cast<std::size_t>(start.array->columns());
    const auto set_none = [&](std::int64_t node) {
      std::byte* at = grown.values + static_cast<std::size_t>(node) * columns * item;
      if (start.array->is("<f4")) {
        std::fill_n(reinterpret_cast<float*>(at), columns, std::numeric_limits<float>::quiet_NaN());
      } else {
        std::memset(at, 0xFF, columns * item);  // -1, or 255
      }
    };
    each_after(start, [&](const Delta& delta) {
      if (const NpyFile* added = delta.find(kAddedLabels)) {
        added->require_descr(start.array->header().descr.c_str());
        shape.front() = delta.nodes_added();
        added->require_shape(shape);
        copy_rows(grown, *added, columns * item, delta.nodes_before);
      } else {
        for (std::int64_t i = delta.nodes_before; i < delta.nodes; ++i) set_none(i);
      }
      each_removed(delta, set_none);
    });
  }

  void split() {
    Start start = start_of(kSplitFile, kAddedSplit);
    if (!start.array) return;
    start.array->require_descr("|u1");
    const std::vector<std::int64_t> before = start.array->header().shape;
    const bool matrix = before.size() == 2;
    const std::int64_t count = matrix ? before.front() : 1;
    const std::int64_t old_nodes = before.empty() ? 0 : before.back();
    if (!changes(start, kRemovedNodes)) return share(start);
    const auto shape = matrix ? std::vector{count, nodes_} : std::vector{nodes_};
    const GrownArray grown =
        count == 1 ? grown_array(*start.array, shape) : new_array("|u1", shape);
    auto* values = grown.as<std::uint8_t>();
    for (std::int64_t k = 0; count > 1 && k < count; ++k) {
      const auto old = start.array->values<std::uint8_t>().subspan(
          static_cast<std::size_t>(k * old_nodes), static_cast<std::size_t>(old_nodes));
      std::ranges::copy(old, values + k * nodes_);
    }
    for (std::int64_t k = 0; k < count; ++k) {
      std::uint8_t* of_split = values + k * nodes_;
      each_after(start, [&](const Delta& delta) {
        const NpyFile* added = delta.find(kAddedSplit);
        const auto n = static_cast<std::size_t>(delta.nodes_added());
        if (added == nullptr) {
          std::fill_n(of_split + delta.nodes_before, n, static_cast<std::uint8_t>(Split::kNone));
        } else {
          added->require_shape(std::vector{count, delta.nodes_added()});
          const auto roles =
              added->values<std::uint8_t>().subspan(static_cast<std::size_t>(k) * n, n);
          std::ranges::copy(roles, of_split + delta.nodes_before);
        }
        each_removed(delta, [&](std::int64_t node) {
          of_split[node] = static_cast<std::uint8_t>(Split::kNone);
        });
      });
    }
    files_[kSplitFile] = grown.file;
  }

  void node_ids() {
    const fs::path path = base_.folder() / kNodeIdsFile;
    if (!is_there(path)) return;
    std::string more;
    for (const Delta& delta : chain_.deltas) {
      const fs::path added = delta.folder / kAddedNodeIds;
      if (is_there(added)) more += read_text(added);
    }
    std::error_code error;
    const auto size = static_cast<std::size_t>(fs::file_size(path, error));
    auto file = std::make_shared<MappedFile>(MappedFile::grown(size + more.size(), path));
    if (!more.empty()) std::memcpy(file->writable().data() + size, more.data(), more.size());
    files_[kNodeIdsFile] = std::move(file);
  }

 private:
  // The last whole array of the chain, and the delta behind it.
  struct Start {
    const char* name;
    std::optional<NpyFile> array;
    std::size_t next = 0;
  };

  Start start_of(const char* name, const char* added) const {
    Start start{name, std::nullopt, 0};
    for (std::size_t l = 0; l < chain_.deltas.size(); ++l) {
      const NpyFile* whole = chain_.deltas[l].find(name);
      if (whole == nullptr) continue;
      start.array = *whole;
      start.next = l + 1;
    }
    if (!start.array && is_there(base_.folder() / name))
      start.array = NpyFile(base_.folder() / name);
    if (start.array) {
      const std::int64_t rows =
          start.next == 0 ? base_.info().nodes : chain_.deltas[start.next - 1].nodes;
      const auto& shape = start.array->header().shape;
      const std::int64_t found = shape.empty()                          ? 0
                                 : name == std::string_view(kSplitFile) ? shape.back()
                                                                        : shape.front();
      if (found != rows) {
        fail_input("{}: it has {} rows, {} expected, one per node", start.array->path().string(),
                   found, rows);
      }
      return start;
    }
    for (const Delta& delta : chain_.deltas) {
      if (delta.find(added) == nullptr) continue;
      fail_input("{}: it is there, but {} has no {}", (delta.folder / added).string(),
                 chain_.base.string(), name);
    }
    return start;
  }

  template <typename Visit>
  void each_after(const Start& start, const Visit& visit) const {
    for (std::size_t l = start.next; l < chain_.deltas.size(); ++l) visit(chain_.deltas[l]);
  }

  // Whether a delta behind the array changes it: by more nodes, or by rows that `other` lists.
  bool changes(const Start& start, const char* other) const {
    bool any = false;
    each_after(start, [&](const Delta& delta) {
      any = any || delta.nodes_added() > 0 || (other != nullptr && delta.rows_of(other) > 0);
    });
    return any;
  }

  void share(const Start& start) {
    files_[start.name] = std::make_shared<const MappedFile>(start.array->path());
  }

  // Empty if the file is the array already.
  GrownArray grow(const Start& start, std::vector<std::int64_t> shape, const char* other) {
    if (!changes(start, other)) {
      share(start);
      return {};
    }
    GrownArray grown = grown_array(*start.array, std::move(shape));
    files_[start.name] = grown.file;
    return grown;
  }

  static const NpyFile& required(const Delta& delta, const char* name, const char* descr) {
    const NpyFile* array = delta.find(name);
    if (array == nullptr) {
      fail_input("{}: not there, but the delta has {} new nodes", (delta.folder / name).string(),
                 delta.nodes_added());
    }
    array->require_descr(descr);
    return *array;
  }

  static void copy_rows(const GrownArray& grown, const NpyFile& rows, std::size_t row_bytes,
                        std::int64_t at) {
    const std::span<const std::byte> values = rows.value_bytes();
    std::memcpy(grown.values + static_cast<std::size_t>(at) * row_bytes, values.data(),
                values.size());
  }

  template <typename Visit>
  static void each_removed(const Delta& delta, const Visit& visit) {
    const NpyFile* removed = delta.find(kRemovedNodes);
    if (removed == nullptr) return;
    for (const std::int32_t node : removed->values<std::int32_t>()) visit(node);
  }

  const Chain& chain_;
  const Dataset& base_;
  WholeFiles& files_;
  std::int64_t nodes_;
};

// The rows of the base with the entries that the deltas set and without those that they remove.
// Only rows with such entries are looked at one by one; what lies between them is copied at once.
class RowMerge {
 public:
  RowMerge(const Chain& chain, const Dataset& base, WholeFiles& files)
      : chain_(chain), base_(base.graph()), files_(files), nodes_(chain.deltas.back().nodes) {
    weighted_ = base.info().weighted;
    typed_ = base.info().relations > 0;
    columns_ = base.info().edge_features;
  }

  void run() {
    row_ptr_ = new_array("<i8", {nodes_ + 1});
    collect_changes();
    const std::int64_t edges = find_rows();
    files_["row_ptr.npy"] = row_ptr_.file;
    if (changes_.empty()) {
      for (const char* name :
           {"col_idx.npy", "edge_weights.npy", "edge_types.npy", "edge_features.npy"}) {
        const fs::path path = chain_.base / name;
        if (is_there(path)) files_[name] = std::make_shared<const MappedFile>(path);
      }
      return;
    }
    col_idx_ = make("col_idx.npy", "<i4", {edges});
    if (weighted_) weights_ = make("edge_weights.npy", "<f4", {edges});
    if (typed_) types_ = make("edge_types.npy", "<u2", {edges});
    if (columns_ > 0) features_ = make("edge_features.npy", "<f4", {edges, columns_});
    constexpr std::int64_t kRows = 4096;
    parallel_pieces(nodes_, kRows,
                    [&](std::int64_t begin, std::int64_t end, int) { fill(begin, end); });
  }

 private:
  // An entry of a row that a delta sets or removes.
  struct Change {
    std::int32_t column;
    std::uint16_t type;
    bool removed;
    bool there = false;  // in the base
    std::uint32_t delta;
    std::int64_t entry;       // of the delta's arrays
    std::int64_t before = 0;  // entries of the base up to it

    auto key() const { return std::tuple(column, type, delta, !removed); }
    bool same_edge(const Change& other) const {
      return column == other.column && type == other.type;
    }
  };
  struct Row {
    std::int64_t row;
    std::int64_t begin, end;  // of changes_
    std::int64_t length = 0;
  };

  GrownArray make(const char* name, const char* descr, std::vector<std::int64_t> shape) {
    GrownArray array = new_array(descr, std::move(shape));
    files_[name] = array.file;
    return array;
  }

  template <typename Visit>
  void each_change(const Visit& visit) const {
    for (std::size_t l = 0; l < chain_.deltas.size(); ++l) {
      const Delta& delta = chain_.deltas[l];
      for (const bool removed : {true, false}) {
        const NpyFile* edges = delta.find(removed ? kRemovedEdges : kAddedEdges);
        if (edges == nullptr) continue;
        const NpyFile* of_types = delta.find(removed ? kRemovedTypes : kAddedTypes);
        const std::int64_t count = edges->columns();
        if (typed_ && count > 0 && of_types == nullptr) {
          fail_input("{}: types of its edges are not there", edges->path().string());
        }
        const auto ids = edges->values<std::int32_t>();
        const auto types = typed_ && count > 0 ? of_types->values<std::uint16_t>()
                                               : std::span<const std::uint16_t>();
        for (std::int64_t e = 0; e < count; ++e) {
          visit(ids[count + e], Change{.column = ids[e],
                                       .type = types.empty() ? std::uint16_t{0} : types[e],
                                       .removed = removed,
                                       .delta = static_cast<std::uint32_t>(l),
                                       .entry = e});
        }
      }
    }
  }

  // Sorts changes into rows by counting them, in the memory of row_ptr, which is not needed yet.
  void collect_changes() {
    check_values();
    auto* ends = row_ptr_.as<std::int64_t>();
    std::int64_t count = 0;
    each_change([&](std::int32_t row, const Change&) {
      ++ends[row + 1];
      ++count;
    });
    if (count == 0) return;
    for (std::int64_t i = 0; i < nodes_; ++i) ends[i + 1] += ends[i];
    changes_.resize(static_cast<std::size_t>(count));
    each_change([&](std::int32_t row, const Change& change) { changes_[ends[row]++] = change; });
    std::int64_t begin = 0;
    for (std::int64_t i = 0; i < nodes_; ++i) {
      if (ends[i] > begin) rows_.push_back({i, begin, ends[i]});
      begin = ends[i];
    }
  }

  // Entries of deltas have what those of the base have.
  void check_values() {
    for (const Delta& delta : chain_.deltas) {
      const std::int64_t added = delta.rows_of(kAddedEdges, 1);
      const auto require = [&](bool wanted, const char* name) {
        if (added == 0 || wanted == (delta.find(name) != nullptr)) return;
        fail_input("{}: it is {}, but the edges of {} have {}", (delta.folder / name).string(),
                   wanted ? "not there" : "there", chain_.base.string(), wanted ? "such" : "none");
      };
      require(weighted_, kAddedWeights);
      require(typed_, kAddedTypes);
      require(columns_ > 0, kAddedEdgeFeatures);
      if (const NpyFile* features = delta.find(kAddedEdgeFeatures)) {
        features->require_shape(std::vector{added, columns_});
      }
      sources_.push_back({});
      Values& values = sources_.back();
      if (const NpyFile* weights = delta.find(kAddedWeights))
        values.weights = weights->values<float>();
      if (const NpyFile* features = delta.find(kAddedEdgeFeatures)) {
        values.features = features->values<float>();
      }
    }
  }

  std::int64_t old_nodes() const { return base_.nodes(); }
  std::int64_t old_begin(std::int64_t row) const {
    return base_.in_edges.row_ptr[std::min(row, old_nodes())];
  }

  // The last one of several changes of an edge counts; finds where it is, or would be, in the
  // base's row.
  void settle(Row& row) {
    const auto first = changes_.begin() + row.begin;
    auto last = changes_.begin() + row.end;
    std::sort(first, last, [](const Change& a, const Change& b) { return a.key() < b.key(); });
    auto out = first;
    for (auto at = first; at != last; ++at) {
      if (at + 1 == last || !at->same_edge(*(at + 1))) *out++ = *at;
    }
    row.end = row.begin + (out - first);
    const std::int64_t begin = old_begin(row.row);
    const std::int64_t end = old_begin(row.row + 1);
    std::int64_t position = begin;
    row.length = end - begin;
    for (auto at = first; at != out; ++at) {
      position = lower_bound(position, end, *at);
      at->before = position;
      at->there = position < end && base_.in_edges.col_idx[position] == at->column &&
                  (!typed_ || base_.edge_types[position] == at->type);
      row.length += (at->removed ? 0 : 1) - (at->there ? 1 : 0);
      if (at->there) ++position;
    }
  }

  std::int64_t lower_bound(std::int64_t begin, std::int64_t end, const Change& change) const {
    while (begin < end) {
      const std::int64_t middle = begin + (end - begin) / 2;
      const std::int32_t column = base_.in_edges.col_idx[middle];
      const bool less = column < change.column || (column == change.column && typed_ &&
                                                   base_.edge_types[middle] < change.type);
      (less ? begin : end) = less ? middle + 1 : middle;
    }
    return begin;
  }

  // Fills row_ptr; returns the number of entries.
  std::int64_t find_rows() {
    parallel_for(std::ssize(rows_), 16, [&](std::int64_t k) { settle(rows_[k]); });
    auto* row_ptr = row_ptr_.as<std::int64_t>();
    std::int64_t row = 0;
    std::int64_t shift = 0;
    const auto copy_until = [&](std::int64_t end) {
      for (; row < end; ++row) row_ptr[row] = old_begin(row) + shift;
    };
    for (const Row& changed : rows_) {
      copy_until(changed.row + 1);
      shift += changed.length - (old_begin(changed.row + 1) - old_begin(changed.row));
    }
    copy_until(nodes_ + 1);
    return row_ptr[nodes_];
  }

  void copy_run(std::int64_t from, std::int64_t count, std::int64_t to) {
    if (count == 0) return;
    const auto copy = [&](const auto& values, auto* out, std::int64_t columns) {
      std::memcpy(out + to * columns, values.data() + from * columns,
                  static_cast<std::size_t>(count * columns) * sizeof(values[0]));
    };
    copy(base_.in_edges.col_idx, col_idx_.as<std::int32_t>(), 1);
    if (weighted_) copy(base_.in_edges.values, weights_.as<float>(), 1);
    if (typed_) copy(base_.edge_types, types_.as<std::uint16_t>(), 1);
    if (columns_ > 0) copy(base_.edge_features, features_.as<float>(), columns_);
  }

  void set_entry(const Change& change, std::int64_t to) {
    col_idx_.as<std::int32_t>()[to] = change.column;
    const Values& values = sources_[change.delta];
    if (weighted_) weights_.as<float>()[to] = values.weights[change.entry];
    if (typed_) types_.as<std::uint16_t>()[to] = change.type;
    if (columns_ > 0) {
      const auto row = values.features.subspan(change.entry * columns_, columns_);
      std::ranges::copy(row, features_.as<float>() + to * columns_);
    }
  }

  void fill(std::int64_t begin, std::int64_t end) {
    const auto* row_ptr = row_ptr_.as<std::int64_t>();
    auto changed = std::ranges::lower_bound(rows_, begin, {}, &Row::row);
    for (std::int64_t row = begin; row < end;) {
      const std::int64_t next = changed == rows_.end() ? end : std::min(end, changed->row);
      copy_run(old_begin(row), old_begin(next) - old_begin(row), row_ptr[row]);
      if (next == end) return;
      std::int64_t from = old_begin(next);
      std::int64_t to = row_ptr[next];
      for (std::int64_t k = changed->begin; k < changed->end; ++k) {
        const Change& change = changes_[k];
        copy_run(from, change.before - from, to);
        to += change.before - from;
        from = change.before + (change.there ? 1 : 0);
        if (!change.removed) set_entry(change, to++);
      }
      copy_run(from, old_begin(next + 1) - from, to);
      row = next + 1;
      ++changed;
    }
  }

  struct Values {
    std::span<const float> weights, features;
  };

  const Chain& chain_;
  const GraphView base_;
  WholeFiles& files_;
  const std::int64_t nodes_;
  bool weighted_ = false;
  bool typed_ = false;
  std::int64_t columns_ = 0;     // of features of edges
  std::vector<Values> sources_;  // by delta
  std::vector<Change> changes_;  // by row
  std::vector<Row> rows_;        // those with changes, ascending
  GrownArray row_ptr_, col_idx_, weights_, types_, features_;
};

}  // namespace

WholeFiles merge_chain(const Chain& chain, bool with_split) {
  const Dataset base = Dataset::open(chain.base);
  if (base.info().nodes != chain.deltas.front().nodes_before) {
    fail_input("{}: field 'nodes_before' is {}, but the base has {} nodes",
               (chain.deltas.front().folder / "dataset.json").string(),
               chain.deltas.front().nodes_before, base.info().nodes);
  }
  WholeFiles files;
  NodeArrays nodes(chain, base, files);
  nodes.features();
  nodes.node_types();
  nodes.labels();
  if (with_split) nodes.split();
  nodes.node_ids();
  RowMerge(chain, base, files).run();
  return files;
}

}  // namespace atl
