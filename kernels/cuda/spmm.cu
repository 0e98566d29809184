// SpMM: a team of lanes sums the neighbours of a row, each lane in its own columns.
//
// A team's lanes load the indices of as many neighbours together and pass them around; then all
// lanes load the same neighbour's row, in accesses of 16 bytes where alignment allows, kAhead
// neighbours at a time so that enough loads are under way. A long row is taken by all teams of a
// block, a split one by several blocks; their partial sums are added in a fixed order.
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/spmm.hpp"

namespace atl::cuda {

namespace {

constexpr int kThreads = 128;
constexpr int kAhead = 4;  // neighbours whose rows are loaded before the first is added

// The operator and matrices in plain pointers; absent factors are null.
template <typename T>
struct Arguments {
  const std::int64_t* row_ptr;
  const std::int32_t* col_idx;
  const float* values;
  const float* row_scale;
  const float* col_scale;
  const float* self_weight;
  Rows<const T> x;
  Rows<T> y;
  std::int64_t cols;
  std::int64_t first_row;  // of the range: dropout's row ids count from it
  bool accumulate;
  EpilogueArgs epilogue;
};

// What the blocks of one launch do: first pieces of split rows, then long rows, then the rest.
struct Blocks {
  const RowPiece* pieces;
  std::int64_t piece_count;
  const std::int32_t* rows;
  std::int64_t long_rows;
  std::int64_t row_count;
  float* partial;  // sums of pieces, `partial_stride` elements each
  std::int64_t partial_stride;
};

// How a team walks a row: kUnits units of kUnit elements per lane, kLanes units apart.
template <typename T, int kUnit, int kLanes, int kUnits>
struct Shape {
  using Element = T;
  using Unit = Packed<float, kUnit>;
  static constexpr int kElements = kUnit;
  static constexpr int kTeam = kLanes;
  static constexpr int kPerLane = kUnits;
  static constexpr int kTeams = kThreads / kLanes;
  static constexpr int kTile = kUnit * kLanes * kUnits;  // columns that a team covers
  // Blocks that shall fit a multiprocessor: half of its threads, with 64 registers each, hide the
  // latency of random reads; the widest lanes need more registers.
  static constexpr int kBlocks = kUnit * kUnits > 8 ? 4 : 8;
};

// Where one lane stands.
template <typename S>
struct Lane {
  int lane;            // within the team
  int team;            // within the block
  unsigned mask;       // of the team, within its warp
  std::int64_t first;  // column of the lane's first unit

  __device__ Lane()
      : lane(static_cast<int>(threadIdx.x) % S::kTeam),
        team(static_cast<int>(threadIdx.x) / S::kTeam),
        mask(S::kTeam == 32
                 ? kFullWarp
                 : ((1U << (S::kTeam % 32)) - 1U) << (threadIdx.x % 32U / S::kTeam * S::kTeam)),
        first(static_cast<std::int64_t>(blockIdx.y) * S::kTile + lane * S::kElements) {}
  __device__ std::int64_t col(int unit) const {
    return first + static_cast<std::int64_t>(unit) * S::kTeam * S::kElements;
  }
};

template <typename Unit, int kUnits>
__device__ void clear_units(Unit (&sums)[kUnits]) {
#pragma unroll
  for (int v = 0; v < kUnits; ++v) {
#pragma unroll
    for (float& value : sums[v].values) value = 0;
  }
}

// sums += weight * x[row, the lane's columns].
template <typename S>
__device__ void add_row(const Arguments<typename S::Element>& a, const Lane<S>& at,
                        std::int64_t row, float weight, typename S::Unit (&sums)[S::kPerLane]) {
#pragma unroll
  for (int v = 0; v < S::kPerLane; ++v) {
    if (at.col(v) >= a.cols) continue;
    const auto values = widen(load<S::kElements>(a.x.at(row, at.col(v))));
#pragma unroll
    for (int k = 0; k < S::kElements; ++k) {
      sums[v].values[k] = fmaf(weight, values.values[k], sums[v].values[k]);
    }
  }
}

// Adds up to kAhead of the neighbours whose indices the team's lanes hold, from the k-th on.
template <typename S>
__device__ void add_neighbours(const Arguments<typename S::Element>& a, const Lane<S>& at,
                               std::int32_t column, float weight, int k, int count,
                               typename S::Unit (&sums)[S::kPerLane]) {
  using T = typename S::Element;
  Packed<T, S::kElements> rows[kAhead][S::kPerLane];
  float weights[kAhead];
  const bool weighted = a.values != nullptr || a.col_scale != nullptr;
#pragma unroll
  for (int u = 0; u < kAhead; ++u) {
    const bool there = k + u < count;
    const int source = there ? k + u : k;
    const std::int32_t row = __shfl_sync(at.mask, column, source, S::kTeam);
    weights[u] = weighted ? __shfl_sync(at.mask, weight, source, S::kTeam) : 1.0F;
    if (!there) weights[u] = 0;
#pragma unroll
    for (int v = 0; v < S::kPerLane; ++v) {
      // Nothing is read for a neighbour that is not there: 0 * infinity is NaN.
      if (there && at.col(v) < a.cols) {
        rows[u][v] = load<S::kElements>(a.x.at(row, at.col(v)));
      } else {
        rows[u][v] = {};
      }
    }
  }
  // Summed among themselves first: a long row's sum takes a quarter of the roundings.
#pragma unroll
  for (int v = 0; v < S::kPerLane; ++v) {
    typename S::Unit part = {};
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      const auto values = widen(rows[u][v]);
#pragma unroll
      for (int j = 0; j < S::kElements; ++j) {
        part.values[j] = fmaf(weights[u], values.values[j], part.values[j]);
      }
    }
#pragma unroll
    for (int j = 0; j < S::kElements; ++j) sums[v].values[j] += part.values[j];
  }
}

// sums += every kTeam edges from `begin` on, then those `step` further, up to `end`.
template <typename S>
__device__ void add_edges(const Arguments<typename S::Element>& a, const Lane<S>& at,
                          std::int64_t begin, std::int64_t end, std::int64_t step,
                          typename S::Unit (&sums)[S::kPerLane]) {
  for (std::int64_t edge = begin; edge < end; edge += step) {
    const int count = static_cast<int>(end - edge < S::kTeam ? end - edge : S::kTeam);
    std::int32_t column = 0;
    float weight = 1;
    if (at.lane < count) {
      column = a.col_idx[edge + at.lane];
      if (a.values != nullptr) weight = a.values[edge + at.lane];
      if (a.col_scale != nullptr) weight *= a.col_scale[column];
    }
    for (int k = 0; k < count; k += kAhead) {
      add_neighbours<S>(a, at, column, weight, k, count, sums);
    }
  }
}

// The row itself, which is not read without self weight: it may hold anything then.
template <typename S>
__device__ void add_self(const Arguments<typename S::Element>& a, const Lane<S>& at,
                         std::int64_t row, typename S::Unit (&sums)[S::kPerLane]) {
  if (a.self_weight == nullptr) return;
  float weight = a.self_weight[row];
  if (weight == 0) return;
  if (a.col_scale != nullptr) weight *= a.col_scale[row];
  add_row<S>(a, at, row, weight, sums);
}

// y[row, col ...] from the complete sums of kUnit neighbouring columns.
template <typename T, int kUnit>
__device__ void finish(const Arguments<T>& a, std::int64_t row, std::int64_t col,
                       const Packed<float, kUnit>& sums) {
  Packed<float, kUnit> sum = sums;
  T* to = a.y.at(row, col);
  const float scale = a.row_scale != nullptr ? a.row_scale[row] : 1.0F;
#pragma unroll
  for (float& value : sum.values) value *= scale;
  if (a.accumulate) {
    const auto before = widen(load<kUnit>(static_cast<const T*>(to)));
#pragma unroll
    for (int k = 0; k < kUnit; ++k) sum.values[k] += before.values[k];
  }
  unsigned kept = ~0U;
  if (a.epilogue.drops()) {
    kept = dropout_bits(a.epilogue, a.epilogue.key_now(), row - a.first_row, col / kDropoutGroup) >>
           static_cast<unsigned>(col % kDropoutGroup);
  }
  ColumnFactors factors[kUnit];
  if (a.epilogue.affine()) {
#pragma unroll
    for (int k = 0; k < kUnit; ++k) factors[k] = column_factors(a.epilogue, col + k);
    apply_epilogue<true>(a.epilogue, factors, kept, sum);
  } else {
    apply_epilogue<false>(a.epilogue, factors, kept, sum);
  }
  store(to, narrow<T>(sum));
}

template <typename S>
__device__ void finish_row(const Arguments<typename S::Element>& a, const Lane<S>& at,
                           std::int64_t row, const typename S::Unit (&sums)[S::kPerLane]) {
#pragma unroll
  for (int v = 0; v < S::kPerLane; ++v) {
    if (at.col(v) < a.cols) finish(a, row, at.col(v), sums[v]);
  }
}

// The sum of edges [begin, end) by all teams of the block, in the lanes of team 0: teams take turns
// at kTeam edges, and their sums are added in the order of teams. `parts`: kThreads * kPerLane.
template <typename S>
__device__ void sum_by_block(const Arguments<typename S::Element>& a, const Lane<S>& at,
                             std::int64_t row, bool with_self, RowRange edges,
                             typename S::Unit* parts, typename S::Unit (&sums)[S::kPerLane]) {
  clear_units(sums);
  if (with_self && at.team == 0) add_self<S>(a, at, row, sums);
  add_edges<S>(a, at, edges.begin + at.team * S::kTeam, edges.end,
               static_cast<std::int64_t>(S::kTeam) * S::kTeams, sums);
#pragma unroll
  for (int v = 0; v < S::kPerLane; ++v) parts[v * kThreads + threadIdx.x] = sums[v];
  __syncthreads();
  if (at.team != 0) return;
  for (int team = 1; team < S::kTeams; ++team) {
#pragma unroll
    for (int v = 0; v < S::kPerLane; ++v) {
      const typename S::Unit part = parts[v * kThreads + team * S::kTeam + at.lane];
#pragma unroll
      for (int k = 0; k < S::kElements; ++k) sums[v].values[k] += part.values[k];
    }
  }
}

template <typename S>
__global__ void __launch_bounds__(kThreads, S::kBlocks)
    spmm_kernel(Arguments<typename S::Element> a, Blocks blocks) {
  __shared__ typename S::Unit parts[kThreads * S::kPerLane];
  const Lane<S> at;
  typename S::Unit sums[S::kPerLane];
  std::int64_t block = blockIdx.x;
  if (block < blocks.piece_count) {
    const RowPiece piece = blocks.pieces[block];
    sum_by_block<S>(a, at, piece.row, piece.first != 0, {piece.begin, piece.end}, parts, sums);
    if (at.team != 0) return;
    float* to = blocks.partial + block * blocks.partial_stride;
    for (int v = 0; v < S::kPerLane; ++v) {
      if (at.col(v) < a.cols) store(to + at.col(v), sums[v]);
    }
    return;
  }
  block -= blocks.piece_count;
  if (block < blocks.long_rows) {
    const std::int64_t row = blocks.rows[block];
    sum_by_block<S>(a, at, row, true, {a.row_ptr[row], a.row_ptr[row + 1]}, parts, sums);
    if (at.team == 0) finish_row<S>(a, at, row, sums);
    return;
  }
  const std::int64_t index = blocks.long_rows + (block - blocks.long_rows) * S::kTeams + at.team;
  if (index >= blocks.row_count) return;
  const std::int64_t row = blocks.rows != nullptr ? blocks.rows[index] : a.first_row + index;
  clear_units(sums);
  add_self<S>(a, at, row, sums);
  add_edges<S>(a, at, a.row_ptr[row], a.row_ptr[row + 1], S::kTeam, sums);
  finish_row<S>(a, at, row, sums);
}

// Adds the pieces of split rows, a thread per column.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    combine_kernel(Arguments<T> a, const SplitRow* split, std::int32_t first_piece,
                   const float* partial, std::int64_t partial_stride) {
  const SplitRow row = split[blockIdx.x];
  const std::int64_t col = static_cast<std::int64_t>(blockIdx.y) * kThreads + threadIdx.x;
  if (col >= a.cols) return;
  const float* from = partial + (row.first_piece - first_piece) * partial_stride + col;
  float sum = 0;
  for (std::int32_t piece = 0; piece < row.pieces; ++piece) sum += from[piece * partial_stride];
  finish(a, row.row, col, Packed<float, 1>{{sum}});
}

template <typename T>
const T* pointer(std::span<const T> values) {
  return values.empty() ? nullptr : values.data();
}

template <typename T>
Arguments<T> make_arguments(const SpmmWork& work, const SparseOperator& op, ConstMatrixView x,
                            double beta, MatrixView y, const Epilogue& epilogue) {
  return {op.row_ptr.data(),
          op.col_idx.data(),
          pointer(op.values),
          pointer(op.row_scale),
          pointer(op.col_scale),
          pointer(op.self_weight),
          rows_of<T>(x),
          rows_of<T>(y),
          x.cols,
          work.range.begin,
          beta != 0,
          epilogue_args(epilogue)};
}

template <typename S>
void launch_blocks(const Launch& where, const Arguments<typename S::Element>& a,
                   const Blocks& blocks) {
  const std::int64_t few_lanes = ceil_divide(blocks.row_count - blocks.long_rows, S::kTeams);
  const std::int64_t count = blocks.piece_count + blocks.long_rows + few_lanes;
  if (count == 0) return;
  const dim3 grid(static_cast<unsigned>(count),
                  static_cast<unsigned>(ceil_divide(a.cols, S::kTile)));
  launch(where, grid, kThreads, spmm_kernel<S>, a, blocks);
}

// The narrowest team that covers a row, or the widest.
template <typename T, int kUnit>
void launch_units(const Launch& where, const Arguments<T>& a, const Blocks& blocks) {
  const std::int64_t units = ceil_divide(a.cols, kUnit);
  if constexpr (kUnit == kVector<T>) {
    if (units <= 4) return launch_blocks<Shape<T, kUnit, 4, 1>>(where, a, blocks);
    if (units > 8 && units <= 16) return launch_blocks<Shape<T, kUnit, 16, 1>>(where, a, blocks);
    if (units > 16 && units <= 32) return launch_blocks<Shape<T, kUnit, 32, 1>>(where, a, blocks);
  }
  if (units <= 8) return launch_blocks<Shape<T, kUnit, 8, 1>>(where, a, blocks);
  launch_blocks<Shape<T, kUnit, 32, 2>>(where, a, blocks);
}

template <typename T>
void launch_rows(const Launch& where, const Arguments<T>& a, const Blocks& blocks,
                 ConstMatrixView x, ConstMatrixView y) {
  if (fits_vectors(kVector<T>, {x, y})) return launch_units<T, kVector<T>>(where, a, blocks);
  if (fits_vectors(kVector<T> / 2, {x, y})) {
    return launch_units<T, kVector<T> / 2>(where, a, blocks);
  }
  launch_units<T, 1>(where, a, blocks);
}

// Split rows in batches whose partial sums fit the workspace; the rest of the rows with the first.
template <typename T>
void run(const Launch& where, const SpmmWork& work, const Arguments<T>& a, ConstMatrixView x,
         ConstMatrixView y) {
  Blocks blocks{};
  blocks.rows = work.rows;
  blocks.long_rows = work.long_rows;
  blocks.row_count = work.row_count;
  blocks.partial = reinterpret_cast<float*>(where.workspace.data());
  blocks.partial_stride = ceil_divide(a.cols, 8) * 8;
  if (work.host_split.empty()) return launch_rows(where, a, blocks, x, y);
  const std::int64_t most =
      static_cast<std::int64_t>(where.workspace.size_bytes()) / (blocks.partial_stride * 4);
  for (std::size_t first = 0; first < work.host_split.size();) {
    const std::size_t end = end_of_batch(work.host_split, first, most);
    const SplitRow& last = work.host_split[end - 1];
    const std::int32_t first_piece = work.host_split[first].first_piece;
    blocks.pieces = work.pieces + first_piece;
    blocks.piece_count = last.first_piece + last.pieces - first_piece;
    launch_rows(where, a, blocks, x, y);
    const dim3 grid(static_cast<unsigned>(end - first),
                    static_cast<unsigned>(ceil_divide(a.cols, kThreads)));
    launch(where, grid, kThreads, combine_kernel<T>, a, work.split + first, first_piece,
           static_cast<const float*>(blocks.partial), blocks.partial_stride);
    blocks.long_rows = 0;
    blocks.row_count = 0;
    first = end;
  }
}

}  // namespace

void spmm(const Launch& where, const SpmmWork& work, const SparseOperator& op, ConstMatrixView x,
          double beta, MatrixView y, const Epilogue& epilogue) {
  // Partial sums of one row must fit the workspace; rows this wide give a block enough to do.
  const bool divided = kMostPieces * (x.cols + 8) * 4 <= kWorkspaceBytes;
  with_element_type(x.dtype, [&]<typename T>(T) {
    run(where, divided ? work : undivided(work.range),
        make_arguments<T>(work, op, x, beta, y, epilogue), x, y);
  });
}

}  // namespace atl::cuda
