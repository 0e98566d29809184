#include "partition/part_blocks.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <numeric>
#include <utility>

#include "base/error.hpp"

namespace atl {

namespace {

constexpr std::int64_t kRowsAtATime = 256;

std::vector<std::int32_t> owners_of(const HaloListsView& halo, int parts) {
  std::vector<std::int32_t> owners(static_cast<std::size_t>(halo.halo_rows()));
  for (int part = 0; part < parts; ++part) {
    std::fill(owners.begin() + halo.recv_offset[part], owners.begin() + halo.recv_offset[part + 1],
              part);
  }
  return owners;
}

template <typename T>
void take_rows(std::span<const T> from, std::span<const LocalId> rows, std::vector<T>& to) {
  to.resize(from.empty() ? 0 : rows.size());
  parallel_for(std::ssize(to), 4096, [&](std::int64_t i) { to[i] = from[to_index(rows[i])]; });
}

// Sums of the values of rows, in double.
void sum_rows(const CsrView& csr, std::vector<float>& sums) {
  sums.resize(static_cast<std::size_t>(csr.rows()));
  parallel_for(csr.rows(), 1024, [&](std::int64_t i) {
    double sum = 0;
    for (std::int64_t e = csr.row_ptr[i]; e < csr.row_ptr[i + 1]; ++e) sum += csr.value(e);
    sums[i] = static_cast<float>(sum);
  });
}

}  // namespace

PartBlocks::PartBlocks(const LocalGraphView& part)
    : part_(part),
      new_row_(static_cast<std::size_t>(part.inner())),
      sent_(static_cast<std::size_t>(part.parts)) {
  ATOLL_ASSERT(part.forward.sums.rows() == 0 && part.backward.sums.rows() == 0);
  for (const LocalMatrixView* matrix : {&part_.forward, &part_.backward}) {
    if (matrix == &part_.backward && part.symmetric) break;
    const auto halo = static_cast<std::size_t>(matrix->halo.halo_rows());
    Side& side = sides_.emplace_back();
    side.matrix = *matrix;
    side.owner = owners_of(matrix->halo, part.parts);
    side.is_read.resize(halo);
    side.column.resize(halo);
  }
}

void PartBlocks::deal(int blocks, NodeNumbers block_of) {
  ATOLL_ASSERT(std::ssize(block_of.inner) == part_.inner());
  ATOLL_ASSERT(blocks <= std::numeric_limits<std::uint16_t>::max());
  block_of_row_.assign(block_of.inner.begin(), block_of.inner.end());
  inner_.fill(blocks, block_of.inner);
  sides_[0].block_of_halo = std::move(block_of.forward_halo);
  if (sides_.size() > 1) sides_[1].block_of_halo = std::move(block_of.backward_halo);
  for (Side& side : sides_) {
    ATOLL_ASSERT(side.block_of_halo.size() == side.owner.size());
    side.halo.fill(blocks, side.block_of_halo);
  }
}

// Halo rows that a row of the part reads, as they are numbered there, from 0.
std::span<const std::int32_t> PartBlocks::remote(const Side& side, std::int64_t row) const {
  const std::int64_t begin = side.matrix.split[row];
  return side.matrix.csr.col_idx.subspan(
      static_cast<std::size_t>(begin),
      static_cast<std::size_t>(side.matrix.csr.row_ptr[row + 1] - begin));
}

// Whether an edge stays is hard to foretell, so it is written down in any case, and overwritten by
// the next one unless it does.
void PartBlocks::find_edges(int block, Side& side) {
  const std::span<const std::int32_t> members = rows(block);
  const std::int64_t inner = part_.inner();
  const CsrView& csr = side.matrix.csr;
  const std::uint16_t* const blocks = block_of_row_.data();
  const auto wanted = static_cast<std::uint16_t>(block);
  side.kept.resize(members.size());
  side.places.resize(
      std::max(side.places.size(), (members.size() + kRowsAtATime - 1) / kRowsAtATime));
  of_row_.resize(static_cast<std::size_t>(parallel_threads()));
  parallel_pieces(std::ssize(members), kRowsAtATime,
                  [&](std::int64_t begin, std::int64_t end, int slot) {
                    std::vector<std::int32_t>& places = side.places[begin / kRowsAtATime];
                    std::vector<std::int32_t>& of_row = of_row_[slot];
                    places.clear();
                    for (std::int64_t k = begin; k < end; ++k) {
                      const std::int64_t row = members[k];
                      const std::int64_t first = csr.row_ptr[row];
                      const auto edges = static_cast<std::int32_t>(csr.row_ptr[row + 1] - first);
                      const auto local = static_cast<std::int32_t>(side.matrix.split[row] - first);
                      const std::int32_t* const columns = csr.col_idx.data() + first;
                      if (std::ssize(of_row) <= edges)
                        of_row.resize(static_cast<std::size_t>(edges) + 1);
                      std::int32_t* const to = of_row.data();
                      std::int32_t count = 0;
                      for (std::int32_t e = 0; e < local; ++e) {
                        to[count] = e;
                        count += blocks[columns[e]] == wanted ? 1 : 0;
                      }
                      Kept& kept = side.kept[k];
                      kept = {.first = std::ssize(places), .local = count};
                      for (std::int32_t e = local; e < edges; ++e) {
                        const auto halo = static_cast<std::size_t>(columns[e] - inner);
                        if (side.block_of_halo[halo] != block) continue;
                        to[count++] = e;
                        // Several threads may find the same one.
                        std::atomic_ref(side.is_read[halo]).store(1, std::memory_order_relaxed);
                      }
                      kept.remote = count - kept.local;
                      places.insert(places.end(), to, to + count);
                    }
                  });
}

void PartBlocks::order_rows(int block, PartBlock& result) {
  const std::span<const std::int32_t> members = rows(block);
  const auto is_central = [&](std::size_t k) {
    return std::ranges::all_of(sides_, [&](const Side& side) { return side.kept[k].remote == 0; });
  };
  order_.clear();
  for (const bool central : {true, false}) {
    for (std::size_t k = 0; k < members.size(); ++k) {
      if (is_central(k) == central) order_.push_back(static_cast<std::int32_t>(k));
    }
    if (central) result.graph.central = std::ssize(order_);
  }
  result.rows.resize(order_.size());
  for (std::size_t i = 0; i < order_.size(); ++i) {
    const std::int32_t row = members[order_[i]];
    result.rows[i] = LocalId{row};
    new_row_[row] = static_cast<std::int32_t>(i);
  }
  moves_rows_ = !std::ranges::is_sorted(order_);
}

void PartBlocks::number_halo(int block, Side& side, LocalMatrix& matrix) {
  const std::int64_t inner = std::ssize(order_);
  matrix.halo_ids.clear();
  std::vector<std::int64_t>& offset = matrix.halo.recv_offset;
  offset.assign(static_cast<std::size_t>(part_.parts) + 1, 0);
  for (const std::int32_t halo : side.halo.of(block)) {
    if (std::exchange(side.is_read[halo], 0) == 0) continue;
    side.column[halo] = static_cast<std::int32_t>(inner + std::ssize(matrix.halo_ids));
    matrix.halo_ids.push_back(side.matrix.halo_ids[halo]);
    ++offset[side.owner[halo] + 1];
  }
  std::partial_sum(offset.begin(), offset.end(), offset.begin());
}

// readers: the side whose edges lead to those who read a row. Receivers number their halo rows as
// the senders have them, and a sender's rows that travel keep their order in every block.
void PartBlocks::list_messages(int block, const Side& readers, const PartBlock& result,
                               LocalMatrix& matrix) {
  for (std::vector<LocalId>& rows : sent_) rows.clear();
  for (std::int64_t i = result.graph.central; i < result.inner(); ++i) {
    for (const std::int32_t column : remote(readers, to_index(result.rows[i]))) {
      const auto halo = static_cast<std::size_t>(column - part_.inner());
      if (readers.block_of_halo[halo] != block) continue;
      std::vector<LocalId>& rows = sent_[readers.owner[halo]];
      const auto row = static_cast<LocalId>(i);
      if (rows.empty() || rows.back() != row) rows.push_back(row);
    }
  }
  matrix.halo.send_rows.clear();
  matrix.halo.send_offset.assign(1, 0);
  for (const std::vector<LocalId>& rows : sent_) {
    matrix.halo.send_rows.insert(matrix.halo.send_rows.end(), rows.begin(), rows.end());
    matrix.halo.send_offset.push_back(std::ssize(matrix.halo.send_rows));
  }
}

void PartBlocks::fill_rows(const Side& side, const PartBlock& result, LocalMatrix& matrix) const {
  const std::int64_t inner = result.inner();
  Csr& csr = matrix.csr;
  csr.row_ptr.resize(static_cast<std::size_t>(inner) + 1);
  matrix.split.resize(static_cast<std::size_t>(inner));
  csr.row_ptr[0] = 0;
  for (std::int64_t i = 0; i < inner; ++i) {
    const Kept kept = side.kept[order_[i]];
    matrix.split[i] = csr.row_ptr[i] + kept.local;
    csr.row_ptr[i + 1] = matrix.split[i] + kept.remote;
  }
  const std::int64_t entries = csr.row_ptr.back();
  const LocalMatrixView& from = side.matrix;
  const std::int64_t features = from.edge_feature_columns;
  csr.col_idx.resize(static_cast<std::size_t>(entries));
  csr.values.resize(static_cast<std::size_t>(from.csr.values.empty() ? 0 : entries));
  matrix.edge_types.resize(static_cast<std::size_t>(from.edge_types.empty() ? 0 : entries));
  matrix.edge_feature_columns = features;
  matrix.edge_features.resize(static_cast<std::size_t>(entries * features));
  const bool columns_only = csr.values.empty() && matrix.edge_types.empty() && features == 0;
  parallel_pieces(inner, kRowsAtATime, [&](std::int64_t begin, std::int64_t end, int) {
    std::vector<std::pair<std::int32_t, std::int64_t>> edges;  // column, entry of the part
    for (std::int64_t i = begin; i < end; ++i) {
      const Kept kept = side.kept[order_[i]];
      const std::int32_t* const places = side.places[order_[i] / kRowsAtATime].data() + kept.first;
      const std::int64_t first = from.csr.row_ptr[to_index(result.rows[i])];
      const std::int32_t* const columns = from.csr.col_idx.data() + first;
      std::int32_t* const to = csr.col_idx.data() + csr.row_ptr[i];
      for (std::int32_t k = 0; k < kept.local; ++k) to[k] = new_row_[columns[places[k]]];
      for (std::int32_t k = kept.local; k < kept.local + kept.remote; ++k) {
        to[k] = side.column[columns[places[k]] - part_.inner()];
      }
      edges.clear();
      if (!columns_only) {
        for (std::int32_t k = 0; k < kept.local + kept.remote; ++k) {
          edges.emplace_back(to[k], first + places[k]);
        }
      }
      // Columns of halo rows ascend as they did.
      if (moves_rows_) {
        std::sort(to, to + kept.local);
        std::ranges::sort(edges);
      }
      for (std::size_t k = 0; k < edges.size(); ++k) {
        const std::int64_t entry = edges[k].second;
        const std::int64_t at = csr.row_ptr[i] + static_cast<std::int64_t>(k);
        if (!csr.values.empty()) csr.values[at] = from.csr.values[entry];
        if (!matrix.edge_types.empty()) matrix.edge_types[at] = from.edge_types[entry];
        std::copy_n(from.edge_features.begin() + entry * features, features,
                    matrix.edge_features.begin() + at * features);
      }
    }
  });
}

void PartBlocks::fill_nodes(PartBlock& result) const {
  LocalGraph& graph = result.graph;
  graph.part = part_.part;
  graph.parts = part_.parts;
  graph.global_nodes = part_.global_nodes;
  graph.symmetric = part_.symmetric;
  take_rows(part_.inner_ids, result.rows, graph.inner_ids);
  take_rows(part_.has_self_loop, result.rows, graph.has_self_loop);
  take_rows(part_.node_types, result.rows, graph.node_types);
  sum_rows(graph.forward.csr.view(), graph.in_degree);
  if (!graph.symmetric) sum_rows(graph.backward.csr.view(), graph.out_degree);
}

void PartBlocks::extract(int block, PartBlock& result) {
  for (Side& side : sides_) find_edges(block, side);
  order_rows(block, result);
  for (Side& side : sides_) {
    const bool forward = &side == &sides_.front();
    LocalMatrix& matrix = forward ? result.graph.forward : result.graph.backward;
    number_halo(block, side, matrix);
    // In a symmetric graph they are the same.
    list_messages(block, forward ? sides_.back() : sides_.front(), result, matrix);
    fill_rows(side, result, matrix);
  }
  fill_nodes(result);
}

}  // namespace atl
