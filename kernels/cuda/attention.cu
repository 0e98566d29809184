// Attention over in-edges, forward: a row goes through its neighbours once; the sum and its norm
// are scaled down where a greater score comes (attention_rows.cuh).
#include "kernels/cuda/attention_rows.cuh"
#include "kernels/cuda/launch.hpp"
#include "kernels/operations/attention.hpp"

namespace atl::cuda {

namespace {

// Results of a piece: its sums in all columns, then `most` and `norm` of each head.
struct AttendResult {
  std::int64_t cols;
  std::int64_t heads;

  std::int64_t stride() const { return padded_columns(padded_columns(cols) + 2 * heads); }
  __device__ float* softmax(float* of_piece, std::int64_t head) const {
    return of_piece + padded_columns(cols) + 2 * head;
  }
  __device__ Softmax softmax(const float* of_piece, std::int64_t head) const {
    const float* const at = of_piece + padded_columns(cols) + 2 * head;
    return {at[0], at[1]};
  }
};

template <typename T, int kUnit, int kUnits, bool kNarrow, typename Score>
__global__ void __launch_bounds__(kAttentionThreads, (kAttentionBlocks<kUnit, kUnits, Score>))
    attend_kernel(AttentionArgs<T> a, RowShares shares, EpilogueArgs epilogue, Rows<T> y) {
  const HeadLane<kUnit, kUnits, kNarrow> at(a);
  const RowShare share = share_of(shares, at.index);
  if (share.first >= share.end) return;
  const std::int64_t i = share.first;  // a chunk is one row
  const RowEdges edges = edges_of(shares, share, i, a.with_self);
  if (edges.count < 0) return;
  AttendingRow<kUnit, kUnits> row;
  load_target<Score, false>(a, at, i, row);
  LaneColumns<kUnit, kUnits> sums{};
  Softmax softmax;
  for_in_edges<true>(
      a, at, a.key_now(), edges, [&](std::int64_t k, const HeldEdge& held, int first, int here) {
        EdgesAhead<kUnit, kUnits> ahead;
        std::int32_t sources[kNeighboursAhead];
        load_ahead(a, at, edges, k, held, first, here, sources, ahead);
        LaneColumns<kUnit, kUnits> targets[Score::kEdges ? kNeighboursAhead : 1];
        if constexpr (Score::kEdges) load_edge_targets(a, at, ahead, row.t, targets);
        score_ahead<Score, false>(a, at, i, held, first, here, sources, row, targets, ahead);
        float weights[kNeighboursAhead];
        const float scale = weigh<Score>(a, ahead, softmax, weights);
        for_lane_columns([&](float& sum) { sum *= scale; }, sums);
#pragma unroll
        for (int n = 0; n < kNeighboursAhead; ++n) {
          if (!ahead.counts[n]) continue;
          const float weight = weights[n] * ahead.factors[n];
          for_lane_columns([&](float& sum, float value) { sum = fmaf(weight, value, sum); }, sums,
                           ahead.z[n]);
        }
      });
  const std::int64_t cols = a.heads * a.each;
  if (share.piece != nullptr) {
    const AttendResult result{cols, a.heads};
    float* const to = shares.results + at.index * shares.result_stride;
    at.store_columns(sums, to);
    if (at.writes()) {
      float* const state = result.softmax(to, at.head);
      state[0] = softmax.most;
      state[1] = softmax.norm;
    }
    return;
  }
  if (edges.count > 0) {
    const float factor = 1 / softmax.norm;
    for_lane_columns([&](float& sum) { sum *= factor; }, sums);
  }
#pragma unroll
  for (int u = 0; u < kUnits; ++u) {
    if (!at.inside || !at.there[u]) continue;
    store_finished(epilogue, y.at(i, at.cols[u]), i - shares.range.begin, at.cols[u], cols,
                   sums.units[u]);
  }
}

// Split rows from their pieces, a thread per column.
template <typename T>
__global__ void __launch_bounds__(kMergeThreads)
    merge_attended_kernel(SplitRows split, AttendResult result, std::int64_t first_row,
                          EpilogueArgs epilogue, Rows<T> y) {
  const std::int64_t col = std::int64_t{blockIdx.y} * kMergeThreads + threadIdx.x;
  if (col >= result.cols) return;
  const std::int64_t head = col / (result.cols / result.heads);
  for (std::int64_t k = blockIdx.x; k < split.count; k += kMergeBlocks) {
    const SplitRow row = split.rows[k];
    const float* const from = split.results_of(row);
    const auto softmax_at = [&](std::int64_t piece) {
      return result.softmax(from + piece * split.result_stride, head);
    };
    Softmax softmax = merged_softmax(row.pieces, softmax_at);
    float sum = 0;
    for (std::int64_t piece = 0; piece < row.pieces; ++piece) {
      const float scale = softmax.add(softmax_at(piece));
      sum = fmaf(from[piece * split.result_stride + col], scale, sum);
    }
    store_finished(epilogue, y.at(row.row, col), row.row - first_row, col, result.cols,
                   Packed<float, 1>{{sum * (1 / softmax.norm)}});
  }
}

}  // namespace

void kernel(CudaBackend& backend, Queue& queue, const kernels::Attend& call) {
  const auto& [op, rows, z, t, attention, y, epilogue] = call;
  const Launch& where = launch_of(backend, queue);
  const AttendResult result{z.cols, attention.heads};
  const SpmmWork work = divided(work_of(op.prepared, rows),
                                static_cast<std::int64_t>(where.workspace.size()), result.stride());
  const bool additive = attention.score == AttentionScore::kAdditive;
  with_element(z.dtype, [&]<typename T>(T) {
    with_head_lanes(
        attention_args<T>(op, z, t, {}, attention), {z, additive ? z : t, y},
        [&](const auto& a, const auto& grid, auto unit, auto units, auto narrow) {
          with_scores(attention, [&]<typename Score>(Score) {
            for_share_batches(
                work, op.row_ptr, {1, rows.size()}, where.workspace, result.stride(),
                [&](const RowShares& shares, const SplitRows& split) {
                  launch(where, grid(shares.piece_count + shares.chunks.chunks), kAttentionThreads,
                         attend_kernel<T, unit, units, narrow, Score>, a, shares,
                         epilogue_args(epilogue), rows_of<T>(y));
                  if (split.count == 0) return;
                  launch(where, merge_grid(z.cols), kMergeThreads, merge_attended_kernel<T>, split,
                         result, rows.begin, epilogue_args(epilogue), rows_of<T>(y));
                });
          });
        });
  });
}

}  // namespace atl::cuda
