// How SpMM, and what else goes along edges, divides rows among blocks: plain arithmetic, so that
// the host compiler can test it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/philox.hpp"
#include "kernels/cuda/walk.hpp"
#include "kernels/views.hpp"

namespace atl::cuda {

// Rows by their number of edges. A few lanes take a row below kLongRow, a block takes one below
// kSplitRow, and several blocks take pieces of one beyond, whose sums are added in order: a block
// is one warp, and the rest of the device should not wait long for the last.
inline constexpr std::int64_t kMediumRow = 32;
inline constexpr std::int64_t kLongRow = 256;
inline constexpr std::int64_t kSplitRow = 1024;
inline constexpr std::int64_t kPieceEdges = 512;
inline constexpr std::int64_t kMostPieces = 1024;  // of one row

// Edges [begin, end) of a row that is split.
struct RowPiece {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int32_t row = 0;
  std::int32_t first = 0;  // 1 if it is the first of its row
};

// Where the pieces of a row stand in the list of pieces.
struct SplitRow {
  std::int32_t row = 0;
  std::int32_t first_piece = 0;
  std::int32_t pieces = 0;
};

// A range of rows, divided. Every row of it is in exactly one list; each list is in row order.
struct RowBins {
  std::vector<SplitRow> split;
  std::vector<RowPiece> pieces;
  std::vector<std::int32_t> rows;  // long rows, then medium ones, then short ones
  std::int64_t long_rows = 0;
  bool natural = false;  // `rows` would be the whole range in order and is left empty
};

// A constant whose address is taken, as by std::min, is none on a device: nvcc makes a trap of it.
constexpr std::int64_t pieces_of(std::int64_t edges) {
  return std::min(ceil_divide(edges, kPieceEdges), std::int64_t{kMostPieces});
}

// Piece k of `pieces` equal ones (but for the last) of the edges [begin, end).
inline RowRange piece_edges(std::int64_t begin, std::int64_t end, std::int64_t pieces,
                            std::int64_t k) {
  const std::int64_t length = ceil_divide(end - begin, pieces);
  return {std::min(begin + k * length, end), std::min(begin + (k + 1) * length, end)};
}

inline void add_split_row(std::int64_t row, std::int64_t begin, std::int64_t end, RowBins& bins) {
  const std::int64_t count = pieces_of(end - begin);
  bins.split.push_back({static_cast<std::int32_t>(row),
                        static_cast<std::int32_t>(bins.pieces.size()),
                        static_cast<std::int32_t>(count)});
  for (std::int64_t k = 0; k < count; ++k) {
    const RowRange edges = piece_edges(begin, end, count, k);
    bins.pieces.push_back({edges.begin, edges.end, static_cast<std::int32_t>(row), k == 0 ? 1 : 0});
  }
}

// row_ptr of the whole operator.
inline RowBins bin_rows(std::span<const std::int64_t> row_ptr, RowRange range) {
  RowBins bins;
  std::vector<std::int32_t> medium_rows;
  std::vector<std::int32_t> short_rows;
  for (std::int64_t row = range.begin; row < range.end; ++row) {
    const std::int64_t begin = row_ptr[static_cast<std::size_t>(row)];
    const std::int64_t end = row_ptr[static_cast<std::size_t>(row) + 1];
    const std::int64_t edges = end - begin;
    if (edges >= kSplitRow) {
      add_split_row(row, begin, end, bins);
    } else if (edges >= kLongRow) {
      bins.rows.push_back(static_cast<std::int32_t>(row));
    } else if (edges >= kMediumRow) {
      medium_rows.push_back(static_cast<std::int32_t>(row));
    } else {
      short_rows.push_back(static_cast<std::int32_t>(row));
    }
  }
  bins.long_rows = static_cast<std::int64_t>(bins.rows.size());
  // Rows of one kind need no list, and neighbours in the graph stay neighbours in time.
  bins.natural =
      bins.split.empty() && bins.rows.empty() && (medium_rows.empty() || short_rows.empty());
  if (bins.natural) return bins;
  bins.rows.insert(bins.rows.end(), medium_rows.begin(), medium_rows.end());
  bins.rows.insert(bins.rows.end(), short_rows.begin(), short_rows.end());
  return bins;
}

// The one of `pieces` pieces and `rows` rows behind them that stands at `place` when the pieces are
// spread evenly over the rows.
constexpr std::int64_t spread_index(std::int64_t place, std::int64_t pieces, std::int64_t rows) {
  if (pieces == 0) return place;
  const std::int64_t apart = (pieces + rows) / pieces;
  const std::int64_t before = std::min(ceil_divide(place, apart), pieces);
  return place % apart == 0 && place / apart < pieces ? before : pieces + place - before;
}

// The end of the longest run of split rows from `first` on whose pieces are at most `most`; a row
// alone may have more.
inline std::size_t end_of_batch(std::span<const SplitRow> split, std::size_t first,
                                std::int64_t most) {
  std::size_t end = first;
  std::int64_t pieces = 0;
  while (end < split.size()) {
    pieces += split[end].pieces;
    if (pieces > most && end > first) break;
    ++end;
  }
  return end;
}

}  // namespace atl::cuda
