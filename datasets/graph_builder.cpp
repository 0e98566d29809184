#include "datasets/graph_builder.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <compare>
#include <limits>
#include <memory>
#include <utility>

#include "base/error.hpp"
#include "base/mixed_bits.hpp"
#include "base/parallel.hpp"
#include "base/progress.hpp"

namespace atl {

namespace {

// Counters by node id that grow where ids occur, so that one absurd id doesn't cost memory.
class SparseCounters {
 public:
  void add(std::int32_t id) {
    const std::size_t index = static_cast<std::size_t>(id) / kChunk;
    if (index >= chunks_.size()) chunks_.resize(index + 1);
    auto& chunk = chunks_[index];
    if (!chunk) chunk = std::make_unique<std::array<std::uint32_t, kChunk>>();
    ++(*chunk)[static_cast<std::size_t>(id) % kChunk];
  }
  std::uint32_t operator[](std::int64_t id) const {
    const std::size_t index = static_cast<std::size_t>(id) / kChunk;
    if (index >= chunks_.size() || !chunks_[index]) return 0;
    return (*chunks_[index])[static_cast<std::size_t>(id) % kChunk];
  }

 private:
  static constexpr std::size_t kChunk = std::size_t{1} << 12U;
  std::vector<std::unique_ptr<std::array<std::uint32_t, kChunk>>> chunks_;
};

// While rows are gathered, a directed graph stores `source` in row `target`; an undirected one
// stores each edge once, in the row of its smaller end, as 2 * larger end + direction.
class Builder {
 public:
  Builder(const EdgeStream& stream, const GraphBuildOptions& options)
      : stream_(stream), options_(options) {}

  BuiltGraph run() {
    count();
    fill();
    sort_rows();
    merge_rows();
    if (options_.keep_edges) trim(*options_.keep_edges);
    if (!options_.directed) expand();
    if (options_.reverse_relations) {  // everything was counted both ways
      graph_.duplicates /= 2;
      graph_.merged /= 2;
    }
    return std::move(graph_);
  }

 private:
  bool dropped(const Edge& edge) const {
    return edge.source == edge.target && !options_.keep_self_loops;
  }
  // The edges that one of the stream is stored as.
  template <typename Visit>
  void each_stored(const Edge& edge, const Visit& visit) const {
    if (dropped(edge)) return;
    visit(edge);
    if (!options_.reverse_relations) return;
    visit(Edge{edge.target, edge.source, edge.weight,
               static_cast<std::uint16_t>(edge.type + first_reverse_)});
  }
  std::int32_t row_of(const Edge& edge) const {
    return options_.directed ? edge.target : std::min(edge.source, edge.target);
  }
  std::int32_t key_of(const Edge& edge) const {
    if (options_.directed) return edge.source;
    const auto larger = static_cast<std::uint32_t>(std::max(edge.source, edge.target));
    return static_cast<std::int32_t>(2 * larger + (edge.source > edge.target ? 1U : 0U));
  }
  std::int64_t nodes() const { return static_cast<std::int64_t>(row_ptr().size()) - 1; }
  std::vector<std::int64_t>& row_ptr() { return graph_.csr.row_ptr; }
  const std::vector<std::int64_t>& row_ptr() const { return graph_.csr.row_ptr; }

  // An entry of a row while it is sorted: by column, type, direction, weight and origin.
  struct Stored {
    std::int32_t column;
    std::uint16_t type;
    std::uint8_t direction;
    float weight;
    std::int64_t origin;
    auto operator<=>(const Stored&) const = default;
  };
  Stored stored(std::int64_t e) const {
    return {column_of(e), type_of(e), direction_of(e), graph_.csr.view().value(e),
            options_.with_origins ? graph_.origins[e] : 0};
  }
  void store(std::int64_t e, const Stored& entry) {
    const auto column = static_cast<std::uint32_t>(entry.column);
    graph_.csr.col_idx[e] =
        static_cast<std::int32_t>(options_.directed ? column : 2 * column + entry.direction);
    if (options_.weighted) graph_.csr.values[e] = entry.weight;
    if (options_.typed) graph_.types[e] = entry.type;
    if (options_.with_origins) graph_.origins[e] = entry.origin;
  }
  // Column of an entry that fill() has stored.
  std::int32_t column_of(std::int64_t e) const {
    const auto key = static_cast<std::uint32_t>(graph_.csr.col_idx[e]);
    return static_cast<std::int32_t>(options_.directed ? key : key >> 1U);
  }
  std::uint8_t direction_of(std::int64_t e) const {
    return options_.directed ? 0 : static_cast<std::uint8_t>(graph_.csr.col_idx[e] & 1);
  }
  std::uint16_t type_of(std::int64_t e) const {
    return options_.typed ? graph_.types[e] : std::uint16_t{0};
  }

  std::uint64_t edge_hash(std::int64_t row, std::int32_t column) const {
    const std::uint64_t pair =
        static_cast<std::uint64_t>(row) << 32U | static_cast<std::uint32_t>(column);
    return mixed_bits(0, options_.seed ^ mixed_bits(0, pair));
  }

  void count();
  void count_relations(std::int64_t largest);
  std::int64_t node_count(std::int64_t largest) const;
  void fill();
  void sort_rows();
  void merge_rows();
  std::int64_t merge_row(std::int64_t row, std::int64_t begin, std::int64_t end, std::int64_t out);
  void trim(std::int64_t keep);
  std::uint64_t trim_threshold(std::int64_t surplus) const;
  void expand();

  const EdgeStream& stream_;
  const GraphBuildOptions& options_;
  BuiltGraph graph_;
  std::int64_t kept_ = 0;           // edges that are stored before any are merged
  std::int64_t first_reverse_ = 0;  // type of the reverse of edges of type 0
};

void Builder::count() {
  SparseCounters counters;
  std::int64_t largest = -1;
  std::int64_t largest_type = -1;
  stream_([&](std::span<const Edge> edges) {
    for (const Edge& edge : edges) {
      ATOLL_ASSERT(edge.source >= 0 && edge.target >= 0);
      largest = std::max<std::int64_t>({largest, edge.source, edge.target});
      largest_type = std::max<std::int64_t>(largest_type, edge.type);
      graph_.self_loops += edge.source == edge.target ? 1 : 0;
      each_stored(edge, [&](const Edge& stored) {
        counters.add(row_of(stored));
        ++kept_;
      });
    }
    graph_.edges_source += static_cast<std::int64_t>(edges.size());
  });
  if (options_.typed) count_relations(largest_type);
  const std::int64_t total = node_count(largest);
  row_ptr().resize(static_cast<std::size_t>(total) + 1);
  for (std::int64_t i = 0; i < total; ++i) row_ptr()[i + 1] = row_ptr()[i] + counters[i];
}

void Builder::count_relations(std::int64_t largest) {
  ATOLL_ASSERT(options_.relations == 0 || largest < options_.relations, "{}: type {}",
               options_.place, largest);
  const std::int64_t relations =
      options_.relations > 0 ? options_.relations : std::max<std::int64_t>(1, largest + 1);
  graph_.relations = relations;
  if (!options_.reverse_relations) return;
  ATOLL_ASSERT(options_.directed);
  if (2 * relations > kMaxTypes) {
    fail_input("{}: {} relations and their reverses; allowed are at most {} in all", options_.place,
               relations, kMaxTypes);
  }
  first_reverse_ = relations;
  graph_.relations = 2 * relations;
}

std::int64_t Builder::node_count(std::int64_t largest) const {
  if (options_.nodes >= 0) {
    ATOLL_ASSERT(largest < options_.nodes, "{}: id {}", options_.place, largest);
  }
  const std::int64_t total =
      options_.nodes >= 0 ? options_.nodes : std::max(largest + 1, options_.least_nodes);
  if (total == 0) fail_input("{}: the graph has 0 nodes; at least 1 is needed", options_.place);
  if (total > kMaxNodes) {
    fail_input("{}: {} nodes; allowed are fewer than 2^31", options_.place, total);
  }
  if (!options_.trust_nodes && total > 64 * graph_.edges_source + (1 << 20)) {
    fail_input(
        "{}: {} nodes, but only {} edges; number the nodes densely (--renumber) or give --nodes",
        options_.place, total, graph_.edges_source);
  }
  return total;
}

// Advances row_ptr[i] from the start of row i to its end, then shifts it back.
void Builder::fill() {
  auto& keys = graph_.csr.col_idx;
  auto& weights = graph_.csr.values;
  // Room for both directions; pages that are never touched cost no memory.
  const auto make_room = [&](auto& values) {
    values.reserve(static_cast<std::size_t>(options_.directed ? kept_ : 2 * kept_));
    values.resize(static_cast<std::size_t>(kept_));
  };
  make_room(keys);
  if (options_.weighted) make_room(weights);
  if (options_.typed) make_room(graph_.types);
  if (options_.with_origins) make_room(graph_.origins);
  std::int64_t filled = 0;
  std::int64_t origin = 0;
  const auto changed = [&] { fail_input("{}: changed while it was being read", options_.place); };
  stream_([&](std::span<const Edge> edges) {
    for (const Edge& edge : edges) {
      each_stored(edge, [&](const Edge& stored) {
        if (row_of(stored) >= nodes()) changed();
        const std::int64_t at = row_ptr()[row_of(stored)]++;
        if (at >= kept_) changed();
        keys[at] = key_of(stored);
        if (options_.weighted) weights[at] = stored.weight;
        if (options_.typed) graph_.types[at] = stored.type;
        if (options_.with_origins) graph_.origins[at] = origin;
        ++filled;
      });
      ++origin;
    }
  });
  if (filled != kept_) changed();
  std::shift_right(row_ptr().begin(), row_ptr().end(), 1);
  row_ptr().front() = 0;
  row_ptr().back() = kept_;
}

void Builder::sort_rows() {
  auto* keys = reinterpret_cast<std::uint32_t*>(graph_.csr.col_idx.data());
  const bool keys_only = !options_.weighted && !options_.typed && !options_.with_origins;
  const std::int64_t rows = nodes();
  const Activity activity("sorting edges");
  parallel_pieces(rows, 256, [&](std::int64_t first, std::int64_t last, int) {
    std::vector<Stored> entries;
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t begin = row_ptr()[i];
      const std::int64_t end = row_ptr()[i + 1];
      if (keys_only) {
        std::sort(keys + begin, keys + end);
        continue;
      }
      entries.clear();
      for (std::int64_t e = begin; e < end; ++e) entries.push_back(stored(e));
      std::sort(entries.begin(), entries.end());
      for (std::int64_t e = begin; e < end; ++e) store(e, entries[e - begin]);
    }
  });
}

void Builder::merge_rows() {
  const Activity activity("merging duplicate edges");
  std::int64_t out = 0;
  std::int64_t begin = 0;
  for (std::int64_t i = 0; i < nodes(); ++i) {
    const std::int64_t end = row_ptr()[i + 1];
    out = merge_row(i, begin, end, out);
    begin = end;
    row_ptr()[i + 1] = out;
  }
  graph_.csr.col_idx.resize(static_cast<std::size_t>(out));
  if (options_.weighted) graph_.csr.values.resize(static_cast<std::size_t>(out));
  if (options_.typed) graph_.types.resize(static_cast<std::size_t>(out));
  if (options_.with_origins) graph_.origins.resize(static_cast<std::size_t>(out));
}

// Merges the sorted keys [begin, end) to position `out` and returns the position after them.
std::int64_t Builder::merge_row(std::int64_t row, std::int64_t begin, std::int64_t end,
                                std::int64_t out) {
  auto& keys = graph_.csr.col_idx;
  auto& weights = graph_.csr.values;
  for (std::int64_t e = begin; e < end;) {
    const std::int32_t target = column_of(e);
    const std::uint16_t type = type_of(e);
    std::array<std::int64_t, 2> count{};
    std::array<double, 2> sum{};
    std::int64_t origin = std::numeric_limits<std::int64_t>::max();
    for (; e < end && column_of(e) == target && type_of(e) == type; ++e) {
      const std::uint8_t direction = direction_of(e);
      ++count[direction];
      if (options_.weighted) sum[direction] += static_cast<double>(weights[e]);
      if (options_.with_origins) origin = std::min(origin, graph_.origins[e]);
    }
    graph_.duplicates += count[0] + count[1] - (count[0] > 0 ? 1 : 0) - (count[1] > 0 ? 1 : 0);
    graph_.merged += count[0] + count[1] - 1;
    if (!options_.directed && target != row && (count[0] == 0 || count[1] == 0)) {
      const auto other = static_cast<std::int32_t>(row);
      if (graph_.one_way == 0) {
        graph_.first_one_way = count[0] > 0 ? Edge{other, target} : Edge{target, other};
      }
      ++graph_.one_way;
    }
    if (!options_.directed && target != row && count[0] > 0 && count[1] > 0 && sum[0] != sum[1]) {
      if (graph_.uneven++ == 0) {
        graph_.first_uneven = {static_cast<std::int32_t>(row), target, static_cast<float>(sum[0])};
        graph_.first_uneven_back = static_cast<float>(sum[1]);
      }
    }
    keys[out] = target;
    if (options_.typed) graph_.types[out] = type;
    if (options_.with_origins) graph_.origins[out] = origin;
    if (options_.weighted) {
      const double merged = count[1] == 0   ? sum[0]
                            : count[0] == 0 ? sum[1]
                                            : std::max(sum[0], sum[1]);
      weights[out] = static_cast<float>(merged);
      if (!std::isfinite(weights[out])) {
        fail_input("{}: the weights of edge {} - {} sum to {}; allowed are finite sums",
                   options_.place, row, target, merged);
      }
    }
    ++out;
  }
  return out;
}

// The hash below which `surplus` stored edges lie: a histogram of the top bits, then an exact
// selection inside one of its bins.
std::uint64_t Builder::trim_threshold(std::int64_t surplus) const {
  constexpr unsigned kShift = 48;
  const CsrView csr = graph_.csr.view();
  const auto each_hash = [&](auto&& visit) {
    for (std::int64_t i = 0; i < csr.rows(); ++i) {
      for (const std::int32_t column : csr.row(i)) visit(edge_hash(i, column));
    }
  };
  std::vector<std::int64_t> histogram(std::size_t{1} << (64 - kShift));
  each_hash([&](std::uint64_t hash) { ++histogram[hash >> kShift]; });
  std::uint64_t bin = 0;
  std::int64_t below = 0;
  while (below + histogram[bin] < surplus) below += histogram[bin++];
  std::vector<std::uint64_t> inside;
  each_hash([&](std::uint64_t hash) {
    if (hash >> kShift == bin) inside.push_back(hash);
  });
  const auto nth = inside.begin() + (surplus - below - 1);
  std::nth_element(inside.begin(), nth, inside.end());
  return *nth;
}

void Builder::trim(std::int64_t keep) {
  const std::int64_t surplus = graph_.csr.view().nnz() - keep;
  if (surplus <= 0) return;
  ATOLL_ASSERT(!options_.weighted && !options_.typed && !options_.with_origins);
  const Activity activity("dropping surplus edges");
  const std::uint64_t threshold = trim_threshold(surplus);
  auto& columns = graph_.csr.col_idx;
  std::int64_t out = 0;
  std::int64_t begin = 0;
  for (std::int64_t i = 0; i < nodes(); ++i) {
    const std::int64_t end = row_ptr()[i + 1];
    for (std::int64_t e = begin; e < end; ++e) {
      if (edge_hash(i, columns[e]) > threshold) columns[out++] = columns[e];
    }
    begin = end;
    row_ptr()[i + 1] = out;
  }
  columns.resize(static_cast<std::size_t>(out));
}

// From each edge once, in the row of its smaller end, to both directions, in place: the rows move
// to the end of the array, then each to its final position behind room for its smaller neighbours
// (it can't overtake a row not yet moved, because the room needed so far is at most the room there
// is), then that room is filled in ascending order.
void Builder::expand() {
  const Activity activity("storing both directions");
  auto& columns = graph_.csr.col_idx;
  auto& weights = graph_.csr.values;
  const std::int64_t upper = static_cast<std::int64_t>(columns.size());
  std::vector<std::uint32_t> smaller(static_cast<std::size_t>(nodes()));
  std::int64_t room = 0;
  for (std::int64_t i = 0; i < nodes(); ++i) {
    for (const std::int32_t j : graph_.csr.view().row(i)) {
      if (j == i) continue;
      ++smaller[j];
      ++room;
    }
  }
  const auto shift = [&](auto& values) {
    values.resize(static_cast<std::size_t>(upper + room));
    std::move_backward(values.begin(), values.begin() + upper, values.end());
    std::int64_t position = 0;
    for (std::int64_t i = 0; i < nodes(); ++i) {
      position += smaller[i];
      const auto first = values.begin() + room + row_ptr()[i];
      const auto last = values.begin() + room + row_ptr()[i + 1];
      std::move(first, last, values.begin() + position);
      position += last - first;
    }
  };
  shift(columns);
  if (options_.weighted) shift(weights);
  if (options_.typed) shift(graph_.types);
  if (options_.with_origins) shift(graph_.origins);
  std::int64_t before = 0;  // smaller neighbours of rows before i
  for (std::int64_t i = 0; i <= nodes(); ++i) {
    row_ptr()[i] += before;
    if (i < nodes()) before += std::exchange(smaller[i], 0);
  }
  for (std::int64_t i = 0; i < nodes(); ++i) {
    for (std::int64_t e = row_ptr()[i] + smaller[i]; e < row_ptr()[i + 1]; ++e) {
      const std::int32_t j = columns[e];
      if (j == i) continue;
      const std::int64_t at = row_ptr()[j] + smaller[j]++;
      columns[at] = static_cast<std::int32_t>(i);
      if (options_.weighted) weights[at] = weights[e];
      if (options_.typed) graph_.types[at] = graph_.types[e];
      if (options_.with_origins) graph_.origins[at] = graph_.origins[e];
    }
  }
}

}  // namespace

BuiltGraph build_graph(const EdgeStream& stream, const GraphBuildOptions& options) {
  return Builder(stream, options).run();
}

}  // namespace atl
