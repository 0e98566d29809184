#include "datasets/edge_merge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "base/parallel.hpp"
#include "datasets/edge_entry.hpp"

namespace atl {

namespace fs = std::filesystem;

EdgeMerge::EdgeMerge(const Chain& chain, Dataset base, std::optional<std::int64_t> edges,
                     WholeFiles& files)
    : chain_(chain),
      dataset_(std::move(base)),
      base_(dataset_->graph()),
      nodes_(chain.deltas.back().nodes) {
  const DatasetInfo& info = dataset_->info();
  weighted_ = info.weighted;
  typed_ = info.relations > 0;
  columns_ = info.edge_features;
  check_values();
  row_ptr_ = new_array("<i8", {nodes_ + 1});
  files["row_ptr.npy"] = row_ptr_.file;
  if (changes() == 0) {
    edges = info.edges;
    for (const char* name :
         {"col_idx.npy", "edge_weights.npy", "edge_types.npy", "edge_features.npy"}) {
      const fs::path path = chain_.base / name;
      if (is_there(path)) files[name] = std::make_shared<const MappedFile>(path);
    }
  }
  if (!edges) {
    collect_changes();
    edges = find_rows();
    is_planned_ = true;
  } else if (*edges < 0 || *edges > info.edges + changes()) {
    refuse(*edges, fmt::format("0 to {}", info.edges + changes()));
  }
  edges_ = *edges;
  if (changes() > 0) make_arrays(files);
  if (is_planned_) run();
}

void EdgeMerge::run() {
  std::call_once(done_, [&] {
    if (!is_planned_) {
      collect_changes();
      const std::int64_t found = find_rows();
      if (found != edges_) refuse(edges_, fmt::format("{}", found));
    }
    if (changes() > 0) {
      constexpr std::int64_t kRows = 4096;
      parallel_pieces(nodes_, kRows,
                      [&](std::int64_t begin, std::int64_t end, int) { fill(begin, end); });
    }
    changes_ = {};
    changes_memory_.reset();
    rows_ = {};
    base_ = {};
    dataset_.reset();
  });
}

void EdgeMerge::make_arrays(WholeFiles& files) {
  const auto make = [&](const char* name, const char* descr, std::vector<std::int64_t> shape) {
    GrownArray array = new_array(descr, std::move(shape));
    files[name] = array.file;
    return array;
  };
  col_idx_ = make("col_idx.npy", "<i4", {edges_});
  if (weighted_) weights_ = make("edge_weights.npy", "<f4", {edges_});
  if (typed_) types_ = make("edge_types.npy", "<u2", {edges_});
  if (columns_ > 0) features_ = make("edge_features.npy", "<f4", {edges_, columns_});
}

void EdgeMerge::refuse(std::int64_t stated, const std::string& found) const {
  fail_input("{}: field 'edges' is {}, but the chain of bases gives {}",
             (chain_.deltas.back().folder / "dataset.json").string(), stated, found);
}

std::int64_t EdgeMerge::changes() const {
  std::int64_t count = 0;
  for (const Delta& delta : chain_.deltas) {
    count += delta.rows_of(kAddedEdges, 1) + delta.rows_of(kRemovedEdges, 1);
  }
  return count;
}

template <typename Visit>
void EdgeMerge::each_change(const Visit& visit) const {
  for (std::size_t l = 0; l < chain_.deltas.size(); ++l) {
    for_each_entry(chain_.deltas[l], [&](std::int32_t target, std::int32_t source,
                                         std::uint16_t type, bool removed, std::int64_t entry) {
      visit(target, Change{.column = source,
                           .type = typed_ ? type : std::uint16_t{0},
                           .removed = removed,
                           .there = false,
                           .delta = static_cast<std::uint32_t>(l),
                           .entry = entry,
                           .before = 0});
    });
  }
}

// Sorts changes into rows by counting them, in the memory of row_ptr, which is not needed yet.
void EdgeMerge::collect_changes() {
  auto* ends = row_ptr_.as<std::int64_t>();
  std::fill_n(ends, nodes_ + 1, 0);
  rows_.clear();
  if (changes() == 0) return;
  each_change([&](std::int32_t row, const Change&) { ++ends[row + 1]; });
  for (std::int64_t i = 0; i < nodes_; ++i) ends[i + 1] += ends[i];
  changes_memory_ = std::make_unique_for_overwrite<Change[]>(static_cast<std::size_t>(changes()));
  changes_ = {changes_memory_.get(), static_cast<std::size_t>(changes())};
  each_change([&](std::int32_t row, const Change& change) { changes_[ends[row]++] = change; });
  std::size_t rows = 0;
  for (std::int64_t i = 0; i < nodes_; ++i) rows += ends[i] > (i == 0 ? 0 : ends[i - 1]) ? 1 : 0;
  rows_.reserve(rows);
  std::int64_t begin = 0;
  for (std::int64_t i = 0; i < nodes_; ++i) {
    if (ends[i] > begin) rows_.push_back({i, begin, ends[i]});
    begin = ends[i];
  }
}

// Entries of deltas have what those of the base have.
void EdgeMerge::check_values() {
  for (const Delta& delta : chain_.deltas) {
    const std::int64_t added = delta.rows_of(kAddedEdges, 1);
    const auto require = [&](bool wanted, const char* name) {
      if (added == 0 || wanted == (delta.find(name) != nullptr)) return;
      fail_input("{}: it is {}, but the edges of {} have {}", (delta.folder / name).string(),
                 wanted ? "not there" : "there", chain_.base.string(), wanted ? "such" : "none");
    };
    require(weighted_, kAddedWeights);
    require(typed_, kAddedTypes);
    if (typed_ && delta.rows_of(kRemovedEdges, 1) > 0 && delta.find(kRemovedTypes) == nullptr) {
      fail_input("{}: types of its edges are not there", (delta.folder / kRemovedEdges).string());
    }
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

std::int64_t EdgeMerge::old_begin(std::int64_t row) const {
  return base_.in_edges.row_ptr[std::min(row, old_nodes())];
}

// The last one of several changes of an edge counts; finds where it is, or would be, in the
// base's row.
void EdgeMerge::settle(Row& row) {
  const auto first = changes_.begin() + row.begin;
  auto last = changes_.begin() + row.end;
  const auto before = [](const Change& a, const Change& b) { return a.key() < b.key(); };
  if (!std::is_sorted(first, last, before)) std::sort(first, last, before);
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
    at->there = position < end && is_entry(base_, position, at->column, at->type);
    row.length += (at->removed ? 0 : 1) - (at->there ? 1 : 0);
    if (at->there) ++position;
  }
}

std::int64_t EdgeMerge::lower_bound(std::int64_t begin, std::int64_t end,
                                    const Change& change) const {
  if (change.column >= old_nodes()) return end;  // spares a look at the row
  return first_no_less(base_, begin, end, change.column, change.type);
}

// Fills row_ptr; returns the number of entries.
std::int64_t EdgeMerge::find_rows() {
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

void EdgeMerge::copy_run(std::int64_t from, std::int64_t count, std::int64_t to) {
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

void EdgeMerge::set_entry(const Change& change, std::int64_t to) {
  col_idx_.as<std::int32_t>()[to] = change.column;
  const Values& values = sources_[change.delta];
  if (weighted_) weights_.as<float>()[to] = values.weights[change.entry];
  if (typed_) types_.as<std::uint16_t>()[to] = change.type;
  if (columns_ > 0) {
    const auto row = values.features.subspan(change.entry * columns_, columns_);
    std::ranges::copy(row, features_.as<float>() + to * columns_);
  }
}

void EdgeMerge::fill(std::int64_t begin, std::int64_t end) {
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

}  // namespace atl
