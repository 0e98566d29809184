#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <tuple>

#include "base/error.hpp"
#include "base/parallel.hpp"
#include "base/progress.hpp"
#include "datasets/dataset.hpp"
#include "datasets/dataset_writer.hpp"
#include "datasets/file_list.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

// The first index in [0, count) at which `wrong` holds, or count. Runs in parallel.
template <typename Predicate>
std::int64_t first_wrong(std::int64_t count, const Predicate& wrong) {
  std::atomic<std::int64_t> first = count;
  parallel_for(count, 4096, [&](std::int64_t i) {
    std::int64_t before = first.load(std::memory_order_relaxed);
    if (i >= before || !wrong(i)) return;
    while (i < before && !first.compare_exchange_weak(before, i)) {
    }
  });
  return first;
}

void require_finite(std::span<const float> values, std::int64_t columns, const fs::path& file) {
  const auto count = static_cast<std::int64_t>(values.size());
  const std::int64_t wrong =
      first_wrong(count, [&](std::int64_t i) { return !std::isfinite(values[i]); });
  if (wrong == count) return;
  fail_input("{}: row {}, column {} is {}; allowed are finite numbers", file.string(),
             wrong / columns, wrong % columns, values[wrong]);
}

// The position of (row, column) in its sorted row, or -1.
std::int64_t find_edge(const CsrView& csr, std::int64_t row, std::int32_t column) {
  const auto columns = csr.row(row);
  const auto found = std::lower_bound(columns.begin(), columns.end(), column);
  if (found == columns.end() || *found != column) return -1;
  return csr.row_ptr[row] + (found - columns.begin());
}

// Rows sorted by column, parallel edges merged into one that has the sum of their weights: the
// matrix that the edges mean.
Csr merged_rows(const CsrView& csr) {
  Csr merged;
  merged.col_idx.reserve(csr.col_idx.size());
  merged.values.reserve(csr.col_idx.size());
  std::vector<std::pair<std::int32_t, float>> row;
  for (std::int64_t i = 0; i < csr.rows(); ++i) {
    row.clear();
    for (std::int64_t e = csr.row_ptr[i]; e < csr.row_ptr[i + 1]; ++e) {
      row.emplace_back(csr.col_idx[e], csr.value(e));
    }
    std::sort(row.begin(), row.end());  // by weight too: equal sets of weights give equal sums
    for (std::size_t k = 0; k < row.size(); ++k) {
      if (k > 0 && row[k].first == row[k - 1].first) {
        merged.values.back() += row[k].second;
      } else {
        merged.col_idx.push_back(row[k].first);
        merged.values.push_back(row[k].second);
      }
    }
    merged.row_ptr.push_back(static_cast<std::int64_t>(merged.col_idx.size()));
  }
  return merged;
}

// The first difference between entries `a` and `b` of a graph; empty if there is none.
std::string difference(const GraphView& graph, std::int64_t a, std::int64_t b) {
  const auto differ = [](const std::string& what, auto first, auto second) {
    return fmt::format("{} is {} one way and {} the other", what, first, second);
  };
  if (!graph.edge_types.empty() && graph.edge_types[a] != graph.edge_types[b]) {
    return differ("type", graph.edge_types[a], graph.edge_types[b]);
  }
  if (graph.in_edges.value(a) != graph.in_edges.value(b)) {
    return differ("weight", graph.in_edges.value(a), graph.in_edges.value(b));
  }
  const std::int64_t columns = graph.edge_feature_columns;
  for (std::int64_t k = 0; k < columns; ++k) {
    const float first = graph.edge_features[a * columns + k];
    const float second = graph.edge_features[b * columns + k];
    if (first != second) return differ(fmt::format("feature {}", k), first, second);
  }
  return {};
}

// Entries of a graph whose edges have types or features, in an order in which those between two
// nodes can be compared one by one with those back.
class OrderedEntries {
 public:
  explicit OrderedEntries(const GraphView& graph);

  // The range of entries (row, column); positions for entry().
  std::pair<std::int64_t, std::int64_t> between(std::int64_t row, std::int64_t column) const;
  std::int64_t entry(std::int64_t position) const {
    return order_.empty() ? position : order_[position];
  }
  std::int32_t column(std::int64_t position) const {
    return graph_.in_edges.col_idx[entry(position)];
  }

 private:
  bool less(std::int64_t a, std::int64_t b) const;

  const GraphView& graph_;
  std::vector<std::int64_t> order_;  // empty: as they are
};

bool OrderedEntries::less(std::int64_t a, std::int64_t b) const {
  const auto key = [&](std::int64_t e) {
    return std::tuple(graph_.in_edges.col_idx[e],
                      graph_.edge_types.empty() ? 0 : graph_.edge_types[e],
                      graph_.in_edges.value(e));
  };
  if (key(a) != key(b)) return key(a) < key(b);
  const std::int64_t columns = graph_.edge_feature_columns;
  return std::ranges::lexicographical_compare(graph_.edge_features.subspan(a * columns, columns),
                                              graph_.edge_features.subspan(b * columns, columns));
}

OrderedEntries::OrderedEntries(const GraphView& graph) : graph_(graph) {
  // Every import writes them in this order; only a hand-made folder pays for another.
  const CsrView csr = graph.in_edges;
  const bool ordered = first_wrong(csr.rows(), [&](std::int64_t i) {
                         for (std::int64_t e = csr.row_ptr[i] + 1; e < csr.row_ptr[i + 1]; ++e) {
                           if (less(e, e - 1)) return true;
                         }
                         return false;
                       }) == csr.rows();
  if (ordered) return;
  order_.resize(csr.col_idx.size());
  std::iota(order_.begin(), order_.end(), 0);
  parallel_for(csr.rows(), 256, [&](std::int64_t i) {
    std::sort(order_.begin() + csr.row_ptr[i], order_.begin() + csr.row_ptr[i + 1],
              [&](std::int64_t a, std::int64_t b) { return less(a, b); });
  });
}

std::pair<std::int64_t, std::int64_t> OrderedEntries::between(std::int64_t row,
                                                              std::int64_t column) const {
  const CsrView& csr = graph_.in_edges;
  // The first position from `begin` on whose column is `least` or more.
  const auto first_of = [&](std::int64_t begin, std::int64_t least) {
    std::int64_t end = csr.row_ptr[row + 1];
    while (begin < end) {
      const std::int64_t middle = begin + (end - begin) / 2;
      if (this->column(middle) < least) {
        begin = middle + 1;
      } else {
        end = middle;
      }
    }
    return begin;
  };
  const std::int64_t begin = first_of(csr.row_ptr[row], column);
  return {begin, first_of(begin, column + 1)};
}

// A difference between an edge into `row` and the one back; empty if there is none.
std::string difference_in_row(const GraphView& graph, const OrderedEntries& entries,
                              std::int64_t row) {
  const CsrView& csr = graph.in_edges;
  for (std::int64_t p = csr.row_ptr[row]; p < csr.row_ptr[row + 1];) {
    const std::int64_t source = entries.column(p);
    const auto [begin, end] = entries.between(row, source);
    const auto [back, back_end] = entries.between(source, row);
    if (end - begin != back_end - back) {
      return fmt::format("row {} holds {} {} time(s), row {} holds {} {} time(s)", row, source,
                         end - begin, source, row, back_end - back);
    }
    for (std::int64_t k = 0; k < end - begin; ++k) {
      const std::string found =
          difference(graph, entries.entry(begin + k), entries.entry(back + k));
      if (found.empty()) continue;
      return fmt::format("between nodes {} and {}, the {}", source, row, found);
    }
    p = end;
  }
  return {};
}

// Every edge must have one back of its type, weight and features.
void check_equal_both_ways(const GraphView& graph, const std::string& file) {
  const OrderedEntries entries(graph);
  const std::int64_t row = first_wrong(
      graph.nodes(), [&](std::int64_t i) { return !difference_in_row(graph, entries, i).empty(); });
  if (row == graph.nodes()) return;
  fail_input("{}: {}; 'directed' must be true", file, difference_in_row(graph, entries, row));
}

// The matrix must equal its transpose, weights and numbers of parallel edges included.
void check_symmetry(const CsrView& graph, const std::string& file) {
  // Every import writes ascending rows; only a hand-made folder pays for the copy.
  const bool ascending =
      first_wrong(graph.rows(), [&](std::int64_t i) {
        const auto row = graph.row(i);
        return std::adjacent_find(row.begin(), row.end(), std::greater_equal<>()) != row.end();
      }) == graph.rows();
  const Csr merged = ascending ? Csr{} : merged_rows(graph);
  const CsrView csr = ascending ? graph : merged.view();
  const std::int64_t row = first_wrong(csr.rows(), [&](std::int64_t i) {
    for (std::int64_t e = csr.row_ptr[i]; e < csr.row_ptr[i + 1]; ++e) {
      const std::int64_t back = find_edge(csr, csr.col_idx[e], static_cast<std::int32_t>(i));
      if (back < 0 || csr.value(e) != csr.value(back)) return true;
    }
    return false;
  });
  if (row == csr.rows()) return;
  for (std::int64_t e = csr.row_ptr[row]; e < csr.row_ptr[row + 1]; ++e) {
    const std::int32_t j = csr.col_idx[e];
    const std::int64_t back = find_edge(csr, j, static_cast<std::int32_t>(row));
    if (back < 0) {
      fail_input("{}: row {} holds {}, but row {} doesn't hold {}; 'directed' must be true", file,
                 row, j, j, row);
    }
    if (csr.value(e) != csr.value(back)) {
      fail_input(
          "{}: the edges from {} to {} weigh {} together, those back {}; 'directed' must be "
          "true",
          file, j, row, csr.value(e), csr.value(back));
    }
  }
}

}  // namespace

void Dataset::validate_graph() const {
  const GraphView whole = graph();
  const CsrView& csr = whole.in_edges;
  const std::string file = col_idx_.path().string();
  const std::int64_t edge = first_wrong(csr.nnz(), [&](std::int64_t e) {
    return csr.col_idx[e] < 0 || csr.col_idx[e] >= info_.nodes;
  });
  if (edge < csr.nnz()) {
    fail_input("{}: entry {} is {}; allowed are node ids 0 to {}", file, edge, csr.col_idx[edge],
               info_.nodes - 1);
  }
  const auto weights = static_cast<std::int64_t>(csr.values.size());
  const std::int64_t weight =
      first_wrong(weights, [&](std::int64_t e) { return !std::isfinite(csr.values[e]); });
  if (weight < weights) {
    fail_input("{}: entry {} is {}; allowed are finite numbers", edge_weights_.path().string(),
               weight, csr.values[weight]);
  }
  edge_types_.check(info_.relations);
  require_finite(whole.edge_features, info_.edge_features, edge_features_.path());
  if (info_.directed) return;
  const bool plain = info_.relations == 0 && info_.edge_features == 0;
  plain ? check_symmetry(csr, file) : check_equal_both_ways(whole, file);
}

void Dataset::validate_labels() const {
  const auto single =
      labels_.is("<i4") ? labels_.values<std::int32_t>() : std::span<const std::int32_t>();
  for (std::size_t i = 0; i < single.size(); ++i) {
    if (single[i] < -1 || single[i] >= info_.classes) {
      fail_input("{}: entry {} is {}; allowed are -1 to {}", labels_.path().string(), i, single[i],
                 info_.classes - 1);
    }
  }
  const auto real = real_labels();
  for (std::size_t i = 0; i < real.size(); ++i) {
    if (std::isinf(real[i])) {
      fail_input("{}: row {}, column {} is {}; allowed are finite numbers, and NaN for none",
                 labels_.path().string(), static_cast<std::int64_t>(i) / info_.classes,
                 static_cast<std::int64_t>(i) % info_.classes, real[i]);
    }
  }
  const auto multi = multi_labels();
  for (std::size_t i = 0; i < multi.size(); ++i) {
    if (multi[i] > 1 && multi[i] != 255) {
      fail_input("{}: row {}, column {} is {}; allowed are 0, 1, 255", labels_.path().string(),
                 static_cast<std::int64_t>(i) / info_.classes,
                 static_cast<std::int64_t>(i) % info_.classes, multi[i]);
    }
  }
}

void Dataset::validate_splits() const {
  for (std::int64_t k = 0; k < info_.splits; ++k) {
    const auto values = split(k);
    bool train = false;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] > 2 && values[i] != 255) {
        fail_input("{}: split {}, node {} is {}; allowed are 0, 1, 2, 255", split_.path().string(),
                   k, i, values[i]);
      }
      train = train || values[i] == 0;
    }
    if (!train) {
      fail_input("{}: split {} has no training node; at least 1 is needed", split_.path().string(),
                 k);
    }
  }
}

void Dataset::validate_checksums() const {
  const Activity activity("checking the files of " + info_.name);
  if (grown_) return check_chain_files(grown_->chain(), with_split_);
  const fs::path file = folder_ / "dataset.json";
  const Json json = read_json(file);
  if (!json.contains("files")) return;
  for (const char* name : kDatasetFiles) {
    std::error_code error;
    if (!fs::exists(folder_ / name, error)) continue;
    const bool is_split = name == std::string_view(kSplitFile);
    if (is_split && !with_split_) continue;
    with_remedy(is_split ? split_remedy() : "restore the file, or make the dataset again", [&] {
      check_file(folder_ / name, json_field<Json>(json["files"], name, file), file);
    });
  }
}

void Dataset::validate_merged() const {
  if (!grown_) return;
  const fs::path file = folder_ / "dataset.json";
  const Json found = describe_files(grown_->merged());
  for (const auto& [name, entry] : found.items()) {
    const Json stated = json_field<Json>(files_, name.c_str(), file);
    if (stated == entry) continue;
    fail_input("{}: the chain of bases gives {} another checksum, {}, than {} here", file.string(),
               name, entry["xxh3"].get<std::string>(), stated.dump());
  }
}

void Dataset::validate() const {
  const Activity activity("checking " + info_.name);
  validate_checksums();
  validate_merged();
  validate_graph();
  require_finite(features(), info_.features, features_.path());
  node_types_.check(info_.node_types);
  validate_features_by_type();
  validate_labels();
  validate_splits();
  links_.check(info_.nodes);
  validate_node_ids();
}

void Dataset::validate_features_by_type() const {
  if (info_.features_by_type.empty()) return;
  const auto types = node_types_.values();
  for (std::size_t i = 0; i < types.size(); ++i) {
    const std::int64_t width = info_.features_by_type[types[i]];
    const auto row = features().subspan(i * info_.features, info_.features).subspan(width);
    const auto other = std::ranges::find_if(row, [](float value) { return value != 0; });
    if (other == row.end()) continue;
    fail_input(
        "{}: feature {} of node {} is {}; allowed is 0, as nodes of type {} have {} features",
        features_.path().string(), width + (other - row.begin()), i, *other, types[i], width);
  }
}

void Dataset::validate_node_ids() const {
  std::vector<std::string> ids = node_ids();
  std::ranges::sort(ids);
  const auto twice = std::ranges::adjacent_find(ids);
  if (twice == ids.end()) return;
  fail_input("{}: {} is the id of two nodes", (folder_ / kNodeIdsFile).string(), *twice);
}

std::vector<std::uint8_t> Dataset::labelled() const {
  std::vector<std::uint8_t> result(static_cast<std::size_t>(info_.nodes), 0);
  const auto single = labels();
  for (std::size_t i = 0; i < single.size(); ++i) result[i] = single[i] >= 0 ? 1 : 0;
  const auto multi = multi_labels();
  for (std::size_t i = 0; i < multi.size(); ++i) {
    if (multi[i] != 255) result[i / static_cast<std::size_t>(info_.classes)] = 1;
  }
  const auto real = real_labels();
  for (std::size_t i = 0; i < real.size(); ++i) {
    if (!std::isnan(real[i])) result[i / static_cast<std::size_t>(info_.classes)] = 1;
  }
  return result;
}

void Dataset::require_predictable(std::int64_t split_index, bool trained_features) const {
  if (info_.features == 0 && !trained_features) {
    fail_input(
        "{0}: the dataset has no features; either train some with --features trained:64, a row of "
        "parameters for each node, or give it some: atoll features {0} degree makes them of the "
        "graph (or constant, random:64, positional:16), and atoll import npy reads features.npy",
        folder_.string());
  }
  if (info_.classes > 0 && info_.splits > 0) split(split_index);
}

void Dataset::require_trainable(std::int64_t split_index, bool trained_features) const {
  require_predictable(split_index, trained_features);
  if (links_.there()) return links_.check(info_.nodes);
  if (info_.classes == 0) {
    fail_input(
        "{}: the dataset has no labels to train on; import it again with some (atoll import "
        "npy reads labels.npy)",
        folder_.string());
  }
  const auto nodes = split(split_index);
  const std::vector<std::uint8_t> has_label = labelled();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i] == static_cast<std::uint8_t>(Split::kTrain) && has_label[i] != 0) return;
  }
  fail_input(
      "{}: split {} has no labelled training node; atoll split {} --split .6,.2,.2 --replace "
      "makes another",
      folder_.string(), split_index, folder_.string());
}

}  // namespace atl
