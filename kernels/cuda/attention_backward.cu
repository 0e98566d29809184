// Both halves of attention's gradient (attention_rows.cuh). Along in-edges a row goes through its
// neighbours twice: for its softmax, and, with that known, for its gradients. What the first time
// finds of an edge waits for the second where its coefficients will be.
#include "kernels/cuda/attention_rows.cuh"
#include "kernels/cuda/launch.hpp"
#include "kernels/cuda/term_sums.cuh"
#include "kernels/operations/attention.hpp"

namespace atl::cuda {

namespace {

// Pieces of the rows that have a sum of `vector`'s gradient, at most, beside those of split rows.
constexpr std::int64_t kVectorChunks = 8448;

// Adds to double sums of the rows of a chunk; stores them for the second stage.
template <int kUnit, int kUnits>
struct VectorSums {
  double sums[kUnits][kUnit] = {};

  __device__ void add(const LaneColumns<kUnit, kUnits>& row) {
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
#pragma unroll
      for (int k = 0; k < kUnit; ++k) sums[u][k] += static_cast<double>(row.units[u].values[k]);
    }
  }
  template <bool kNarrow>
  __device__ void store(const HeadLane<kUnit, kUnits, kNarrow>& at, double* to) const {
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      if (!at.inside || !at.there[u]) continue;
#pragma unroll
      for (int k = 0; k < kUnit; ++k) to[at.cols[u] + k] = sums[u][k];
    }
  }
};

// --- along in-edges -----------------------------------------------------------------------------

// In place of an edge's product with the gradient between the two passes: bits that no arithmetic
// makes.
constexpr std::uint32_t kDropped = 0xFFE0D209;     // dropout gives its coefficient 0
constexpr std::uint32_t kPassedOver = 0xFFE0D20A;  // it does not count

// Results of a piece: its sums, of gatv2 then those of leaky, then the softmax of each head and the
// mean of its products.
struct TargetResult {
  std::int64_t cols;
  std::int64_t heads;
  bool leaky;

  ATOLL_HOST_DEVICE std::int64_t leaky_at() const { return padded_columns(cols); }
  ATOLL_HOST_DEVICE std::int64_t states_at() const {
    return leaky_at() + (leaky ? padded_columns(cols) : 0);
  }
  std::int64_t stride() const { return padded_columns(states_at() + 3 * heads); }
};

// The softmax of a row's head and the mean of its edges' products.
struct TargetState {
  Softmax softmax;
  float mean = 0;  // times the norm while edges are added
};

// From the pieces of the row that `share` is one of; `index`: which among those of the launch.
__device__ inline TargetState merged_state(const RowShares& shares, const RowShare& share,
                                           std::int64_t index, const TargetResult& result,
                                           std::int64_t head) {
  const std::int64_t begin = shares.row_ptr[share.first];
  const std::int64_t edges = shares.row_ptr[share.first + 1] - begin;
  const std::int64_t pieces = pieces_of(edges);
  const std::int64_t before = (share.piece->begin - begin) / ceil_divide(edges, pieces);
  const float* const from =
      shares.results + (index - before) * shares.result_stride + result.states_at() + 3 * head;
  const auto softmax_at = [&](std::int64_t piece) {
    const float* const at = from + piece * shares.result_stride;
    return Softmax{at[0], at[1]};
  };
  TargetState state;
  state.softmax = merged_softmax(pieces, softmax_at);
  for (std::int64_t piece = 0; piece < pieces; ++piece) {
    const float scale = state.softmax.add(softmax_at(piece));
    state.mean = fmaf(from[piece * shares.result_stride + 2], scale, state.mean);
  }
  return state;
}

// The numbers that are written for an edge.
struct Coefficients {
  float alpha;  // dropped
  float slope;  // of what stands behind it
};

// From what is known of an edge: its product, of dropout's factor, and alpha / norm.
template <typename Score, typename T>
__device__ Coefficients coefficients_of(const AttentionArgs<T>& a, const TargetState& state,
                                        float sum, float gradient, float factor) {
  const float alpha = expf(score_of<Score>(a, sum) - state.softmax.base()) * state.softmax.norm;
  float slope = alpha * (factor * gradient - state.mean);
  if constexpr (Score::kScore == AttentionScore::kAdditive) slope *= a.leaky_slope(sum);
  return {alpha * factor, slope};
}
// The same from what the first pass left.
template <typename Score, typename T>
__device__ Coefficients coefficients_left(const AttentionArgs<T>& a, const TargetState& state,
                                          float sum, float gradient) {
  const unsigned bits = __float_as_uint(gradient);
  if (bits == kPassedOver) return {0, 0};
  const bool dropped = bits == kDropped;
  return coefficients_of<Score>(a, state, sum, dropped ? 0.0F : gradient,
                                dropped     ? 0.0F
                                : a.drops() ? a.dropout_scale
                                            : 1.0F);
}

// second: pieces, whose first pass is done, do their second.
template <typename T, int kUnit, int kUnits, bool kNarrow, typename Score>
__global__ void __launch_bounds__(kAttentionThreads, (kAttentionBlocks<kUnit, kUnits, Score>))
    attend_targets_kernel(AttentionArgs<T> a, RowShares shares, TargetResult result, bool second,
                          Rows<T> dt, Rows<float> target_gradients, Rows<float> coefficients,
                          double* partials) {
  constexpr bool kAdditive = Score::kScore == AttentionScore::kAdditive;
  const HeadLane<kUnit, kUnits, kNarrow> at(a);
  const RowShare share = share_of(shares, at.index);
  if (share.first >= share.end) return;
  const RandomKey key = a.key_now();
  // Warps that share a head's columns can't leave things in one place: they do products twice.
  const bool leaves = kAdditive || whole_heads<kUnits>(a);
  VectorSums<kUnit, kUnits> vector_sums;
#pragma unroll 1
  for (std::int64_t i = share.first; i < share.end; ++i) {
    const RowEdges edges = edges_of(shares, share, i, a.with_self);
    if (edges.count < 0) continue;
    AttendingRow<kUnit, kUnits> row;
    load_target<Score, true>(a, at, i, row);
    TargetState state;
    const auto load_and_score = [&](std::int64_t k, const HeldEdge& held, int first, int here,
                                    EdgesAhead<kUnit, kUnits>& ahead) {
      std::int32_t sources[kNeighboursAhead];
      load_ahead(a, at, edges, k, held, first, here, sources, ahead);
      LaneColumns<kUnit, kUnits> targets[Score::kEdges ? kNeighboursAhead : 1];
      if constexpr (Score::kEdges) load_edge_targets(a, at, ahead, row.t, targets);
      score_ahead<Score, true>(a, at, i, held, first, here, sources, row, targets, ahead);
    };
    if (!second) {
      for_in_edges<true>(
          a, at, key, edges, [&](std::int64_t k, const HeldEdge& held, int first, int here) {
            EdgesAhead<kUnit, kUnits> ahead;
            load_and_score(k, held, first, here, ahead);
            float weights[kNeighboursAhead];
            state.mean *= weigh<Score>(a, ahead, state.softmax, weights);
#pragma unroll
            for (int n = 0; n < kNeighboursAhead; ++n) {
              if (ahead.counts[n]) {
                state.mean = fmaf(weights[n] * ahead.factors[n], ahead.gradients[n], state.mean);
              }
              if (leaves && ahead.there[n] && at.writes()) {
                const float gradient = !ahead.counts[n]        ? __uint_as_float(kPassedOver)
                                       : ahead.factors[n] == 0 ? __uint_as_float(kDropped)
                                                               : ahead.gradients[n];
                *coefficients.at(ahead.places[n], at.head) = ahead.scores[n];
                *coefficients.at(ahead.places[n], a.heads + at.head) = gradient;
              }
            }
          });
      if (share.piece != nullptr) {
        if (!at.writes()) return;
        float* const to =
            shares.results + at.index * shares.result_stride + result.states_at() + 3 * at.head;
        to[0] = state.softmax.most;
        to[1] = state.softmax.norm;
        to[2] = state.mean;
        return;
      }
    } else {
      state = merged_state(shares, share, at.index, result, at.head);
    }
    state.softmax.norm = 1 / state.softmax.norm;
    state.mean *= state.softmax.norm;
    __syncwarp(at.mask);  // what one lane left all may read

    float* const to =
        share.piece != nullptr ? shares.results + at.index * shares.result_stride : nullptr;
    if constexpr (kAdditive) {
      // No row is needed any more: lanes of a team take edges of their own.
      float slope_sum[1] = {0};
      if (at.inside && at.tile == 0) {
        for (std::int64_t k = at.lane; k < edges.count; k += a.team) {
          const std::int64_t place = edges.is_self(k) ? a.nnz + i : edges.edge(k);
          float* const alpha_at = coefficients.at(place, at.head);
          float* const slope_at = coefficients.at(place, a.heads + at.head);
          const Coefficients found = coefficients_left<Score>(a, state, *alpha_at, *slope_at);
          *alpha_at = found.alpha;
          *slope_at = found.slope;
          slope_sum[0] += found.slope;
        }
      }
      team_sums(at.mask, a.team, slope_sum);
      if (at.writes()) {
        if (to != nullptr) {
          to[at.head] = slope_sum[0];
        } else {
          *target_gradients.at(i, at.head) = slope_sum[0];
        }
      }
    } else {
      LaneColumns<kUnit, kUnits> sums{};
      LaneColumns<kUnit, kUnits> leaky_sums{};
      const auto add_edges = [&](std::int64_t k, const HeldEdge& held, int first, int here) {
        EdgesAhead<kUnit, kUnits> ahead;
        LaneColumns<kUnit, kUnits> targets[Score::kEdges ? kNeighboursAhead : 1];
        Coefficients found[kNeighboursAhead];
        if (leaves) {
          std::int32_t sources[kNeighboursAhead];
          load_ahead(a, at, edges, k, held, first, here, sources, ahead);
#pragma unroll
          for (int n = 0; n < kNeighboursAhead; ++n) {
            ahead.scores[n] = *coefficients.at(ahead.places[n], at.head);
            ahead.gradients[n] = *coefficients.at(ahead.places[n], a.heads + at.head);
          }
#pragma unroll
          for (int n = 0; n < kNeighboursAhead; ++n) {
            found[n] = coefficients_left<Score>(a, state, ahead.scores[n], ahead.gradients[n]);
          }
          __syncwarp(at.mask);  // all have read
        } else {
          load_and_score(k, held, first, here, ahead);
#pragma unroll
          for (int n = 0; n < kNeighboursAhead; ++n) {
            found[n] = {0, 0};
            if (ahead.counts[n]) {
              found[n] = coefficients_of<Score>(a, state, ahead.scores[n], ahead.gradients[n],
                                                ahead.factors[n]);
            }
          }
        }
        if constexpr (Score::kEdges) load_edge_targets(a, at, ahead, row.t, targets);
#pragma unroll
        for (int n = 0; n < kNeighboursAhead; ++n) {
          if (!ahead.there[n]) continue;
          if (at.writes()) {
            *coefficients.at(ahead.places[n], at.head) = found[n].alpha;
            *coefficients.at(ahead.places[n], a.heads + at.head) = found[n].slope;
          }
          const float slope = found[n].slope;
          if constexpr (Score::kScore == AttentionScore::kDot) {
            for_lane_columns([&](float& sum, float z) { sum = fmaf(slope, z, sum); }, sums,
                             ahead.z[n]);
          } else {
            for_lane_columns(
                [&](float& sum, float& leaky_sum, float z, float t) {
                  const float inner = z + t;
                  sum = fmaf(slope, a.leaky_slope(inner), sum);
                  leaky_sum = fmaf(slope, a.leaky(inner), leaky_sum);
                },
                sums, leaky_sums, ahead.z[n],
                Score::kEdges ? targets[Score::kEdges ? n : 0] : row.t);
          }
        }
      };
      if (leaves) {
        for_in_edges<false>(a, at, key, edges, add_edges);
      } else {
        for_in_edges<true>(a, at, key, edges, add_edges);
      }
      if (to != nullptr) {
        at.store_columns(sums, to);
        if constexpr (Score::kScore == AttentionScore::kGatv2) {
          at.store_columns(leaky_sums, to + result.leaky_at());
        }
        return;
      }
      if constexpr (Score::kScore == AttentionScore::kDot) {
        for_lane_columns([&](float& sum) { sum *= a.root; }, sums);
      } else {
        for_lane_columns([&](float& sum, float factor) { sum *= factor; }, sums, row.vector);
        vector_sums.add(leaky_sums);
      }
#pragma unroll
      for (int u = 0; u < kUnits; ++u) {
        if (at.inside && at.there[u]) store(dt.at(i, at.cols[u]), narrow<T>(sums.units[u]));
      }
    }
  }
  if (partials != nullptr && share.piece == nullptr) {
    vector_sums.store(at, partials + share.chunk * a.heads * a.each);
  }
}

// Calls add(row, from, col) for the split rows of a block, and adds what it gives to the block's
// partial sum of `vector`'s gradient, if there are such.
template <typename Add>
__device__ void for_merged_rows(const SplitRows& split, std::int64_t cols, double* partials,
                                const Add& add) {
  const std::int64_t col = std::int64_t{blockIdx.y} * kMergeThreads + threadIdx.x;
  if (col >= cols) return;
  double sum = 0;
  for (std::int64_t k = blockIdx.x; k < split.count; k += kMergeBlocks) {
    const SplitRow row = split.rows[k];
    sum += static_cast<double>(add(row, split.results_of(row), col));
  }
  if (partials == nullptr) return;
  double* const to = partials + blockIdx.x * cols + col;
  *to = split.first ? sum : *to + sum;
}

// The sum over pieces of what stands at `from` in the results of the first.
__device__ inline float sum_of_pieces(const SplitRows& split, const SplitRow& row,
                                      const float* from) {
  float sum = 0;
  for (std::int64_t piece = 0; piece < row.pieces; ++piece) {
    sum += from[piece * split.result_stride];
  }
  return sum;
}

// A thread per column; of additive, per head.
template <typename T, typename Score>
__global__ void __launch_bounds__(kMergeThreads)
    merge_targets_kernel(AttentionArgs<T> a, SplitRows split, TargetResult result, Rows<T> dt,
                         Rows<float> target_gradients, double* partials) {
  constexpr bool kAdditive = Score::kScore == AttentionScore::kAdditive;
  for_merged_rows(split, kAdditive ? a.heads : result.cols, partials,
                  [&](const SplitRow& row, const float* from, std::int64_t col) {
                    const float sum = sum_of_pieces(split, row, from + col);
                    if constexpr (kAdditive) {
                      *target_gradients.at(row.row, col) = sum;
                      return 0.0F;
                    } else {
                      const bool dot = Score::kScore == AttentionScore::kDot;
                      const float factor = dot ? a.root : a.vector[col];
                      store(dt.at(row.row, col), narrow<T>(Packed<float, 1>{{sum * factor}}));
                      return dot ? 0.0F : sum_of_pieces(split, row, from + result.leaky_at() + col);
                    }
                  });
}

// --- along out-edges ----------------------------------------------------------------------------

// Edges by source in plain pointers.
struct OutEdges {
  const std::int32_t* targets;
  const std::int64_t* edges;
};

// Results of a piece: its sums, of gatv2 and dot then those that the score's gradient is made of,
// of additive the sum of each head's slopes.
struct SourceResult {
  std::int64_t cols;
  std::int64_t heads;

  ATOLL_HOST_DEVICE std::int64_t score_at() const { return padded_columns(cols); }
  std::int64_t stride() const { return 2 * padded_columns(cols); }
};

// An out-edge that a lane holds for all of its row.
struct HeldOutEdge {
  std::int32_t target = 0;
  std::int64_t place = 0;  // of its coefficients
};

template <typename T>
__device__ HeldOutEdge out_edge(const AttentionArgs<T>& a, const OutEdges& out,
                                const RowEdges& edges, std::int64_t k) {
  if (k >= edges.count) return {};
  if (edges.is_self(k)) return {static_cast<std::int32_t>(edges.row), a.nnz + edges.row};
  return {out.targets[edges.edge(k)], out.edges[edges.edge(k)]};
}

template <typename T, int kUnit, int kUnits, bool kNarrow, typename Score>
__global__ void __launch_bounds__(kAttentionThreads, (kAttentionBlocks<kUnit, kUnits, Score>))
    attend_sources_kernel(AttentionArgs<T> a, OutEdges out, RowShares shares, SourceResult result,
                          Rows<const float> coefficients, Rows<T> dz, double* partials) {
  constexpr bool kAdditive = Score::kScore == AttentionScore::kAdditive;
  const HeadLane<kUnit, kUnits, kNarrow> at(a);
  const RowShare share = share_of(shares, at.index);
  if (share.first >= share.end) return;
  LaneColumns<kUnit, kUnits> vector{};
  if constexpr (Score::kScore != AttentionScore::kDot) at.load_vector(a.vector, vector);
  VectorSums<kUnit, kUnits> vector_sums;
#pragma unroll 1
  for (std::int64_t j = share.first; j < share.end; ++j) {
    const RowEdges edges = edges_of(shares, share, j, a.with_self && j < a.rows);
    if (edges.count < 0) continue;
    LaneColumns<kUnit, kUnits> z{};
    if constexpr (Score::kScore != AttentionScore::kDot) at.load_row(a.z, j, z);
    LaneColumns<kUnit, kUnits> sums{};
    LaneColumns<kUnit, kUnits> score_sums{};
    float slope_sum = 0;
    HeldOutEdge next = out_edge(a, out, edges, at.of_row);
#pragma unroll 1
    for (std::int64_t begin = 0; begin < edges.count; begin += at.row_lanes(a)) {
      const HeldOutEdge held = next;
      next = out_edge(a, out, edges, begin + at.row_lanes(a) + at.of_row);
      const int count = static_cast<int>(min(edges.count - begin, std::int64_t{at.row_lanes(a)}));
#pragma unroll 1
      for (int k = 0; k < count; k += kNeighboursAhead) {
        LaneColumns<kUnit, kUnits> dy[kNeighboursAhead];
        LaneColumns<kUnit, kUnits> t[kNeighboursAhead];
        float alphas[kNeighboursAhead];
        float slopes[kNeighboursAhead];
        [[maybe_unused]] const float* features[kNeighboursAhead];
#pragma unroll
        for (int n = 0; n < kNeighboursAhead; ++n) {
          const int of = k + n < count ? k + n : k;
          const std::int64_t i = __shfl_sync(at.mask, held.target, of, at.row_lanes(a));
          const std::int64_t place = __shfl_sync(at.mask, held.place, of, at.row_lanes(a));
          at.load_row(a.dy, i, dy[n]);
          if constexpr (!kAdditive) at.load_row(a.t, i, t[n]);
          alphas[n] = *coefficients.at(place, at.head);
          slopes[n] = *coefficients.at(place, a.heads + at.head);
          if constexpr (Score::kEdges) features[n] = a.features_at(place);
        }
        if constexpr (Score::kEdges) at.add_edges(a, features, t);
#pragma unroll
        for (int n = 0; n < kNeighboursAhead; ++n) {
          if (k + n >= count) continue;
          const float alpha = alphas[n];
          const float slope = slopes[n];
          for_lane_columns([&](float& sum, float value) { sum = fmaf(alpha, value, sum); }, sums,
                           dy[n]);
          if constexpr (kAdditive) {
            slope_sum += slope;
          } else if constexpr (Score::kScore == AttentionScore::kDot) {
            for_lane_columns([&](float& sum, float value) { sum = fmaf(slope, value, sum); },
                             score_sums, t[n]);
          } else {
            for_lane_columns(
                [&](float& sum, float value, float source) {
                  sum = fmaf(slope, a.leaky_slope(source + value), sum);
                },
                score_sums, t[n], z);
          }
        }
      }
    }
    if (share.piece != nullptr) {
      float* const to = shares.results + at.index * shares.result_stride;
      at.store_columns(sums, to);
      if constexpr (kAdditive) {
        if (at.writes()) to[result.score_at() + at.head] = slope_sum;
      } else {
        at.store_columns(score_sums, to + result.score_at());
      }
      return;
    }
    if constexpr (kAdditive) {
      for_lane_columns([&](float& sum, float factor) { sum = fmaf(slope_sum, factor, sum); }, sums,
                       vector);
      for_lane_columns([&](float& value) { value *= slope_sum; }, z);
      vector_sums.add(z);
    } else if constexpr (Score::kScore == AttentionScore::kDot) {
      for_lane_columns([&](float& sum, float score) { sum = fmaf(a.root, score, sum); }, sums,
                       score_sums);
    } else {
      for_lane_columns(
          [&](float& sum, float score, float factor) { sum = fmaf(factor, score, sum); }, sums,
          score_sums, vector);
    }
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      if (!at.inside || !at.there[u]) continue;
      store(dz.at(j - shares.range.begin, at.cols[u]), narrow<T>(sums.units[u]));
    }
  }
  if (partials != nullptr && share.piece == nullptr) {
    vector_sums.store(at, partials + share.chunk * a.heads * a.each);
  }
}

template <typename T, typename Score>
__global__ void __launch_bounds__(kMergeThreads)
    merge_sources_kernel(AttentionArgs<T> a, SplitRows split, SourceResult result,
                         std::int64_t first_source, Rows<T> dz, double* partials) {
  for_merged_rows(
      split, result.cols, partials, [&](const SplitRow& row, const float* from, std::int64_t col) {
        constexpr bool kAdditive = Score::kScore == AttentionScore::kAdditive;
        const std::int64_t score_col = kAdditive ? col / a.each : col;
        const float score = sum_of_pieces(split, row, from + result.score_at() + score_col);
        const float factor = Score::kScore == AttentionScore::kDot ? a.root : a.vector[col];
        const float sum = fmaf(factor, score, sum_of_pieces(split, row, from + col));
        store(dz.at(row.row - first_source, col), narrow<T>(Packed<float, 1>{{sum}}));
        return kAdditive ? score * to_f32(*a.z.at(row.row, col)) : 0.0F;
      });
}

// Terms of the gradient of the weight of features of edges.
template <typename T>
struct EdgeWeightGradients : TermPass {
  AttentionArgs<T> a;
  Rows<const float> coefficients;  // 0 of edges that are passed over

  __device__ void add(const Columns&, std::int64_t row, std::int64_t col, const Held&,
                      double (&sums)[kSums][1]) const {
    const RowShare share = spread_share_of(shares, row);
    const std::int64_t i = share.first;
    const RowEdges edges = edges_of(shares, share, i, a.with_self);
    const std::int64_t c = first_col + col;
    const float t = to_f32(*a.t.at(i, c));
    float along[kSums] = {};
    for (std::int64_t k = 0; k < edges.count; ++k) {
      const bool itself = edges.is_self(k);
      const std::int64_t place = itself ? a.nnz + i : edges.edge(k);
      const std::int64_t source = itself ? i : a.col_idx[place];
      const float inner = to_f32(*a.z.at(source, c)) + a.with_edge(t, place, c);
      const float slope = *coefficients.at(place, a.heads + c / a.each) * a.leaky_slope(inner);
      const float* const features = a.features_at(place);
#pragma unroll
      for (int s = 0; s < kSums; ++s) {
        if (first_term + s < a.feature_count) {
          along[s] = fmaf(slope, features[first_term + s], along[s]);
        }
      }
    }
#pragma unroll
    for (int s = 0; s < kSums; ++s) {
      sums[s][0] += static_cast<double>(along[s]) * static_cast<double>(a.vector[c]);
    }
  }
};

// How a half of the gradient uses the workspace: partial sums of `vector`'s gradient, of the
// merge's blocks and then of chunks, and results of pieces behind them.
struct BackwardPlan {
  SpmmWork work;
  Chunks chunks;
  std::int64_t partial_rows = 0;  // of sums of `vector`'s gradient; 0: none
  double* merged = nullptr;
  double* chunked = nullptr;
  std::span<std::byte> results;

  BackwardPlan(const Launch& where, const SpmmWork& whole, std::int64_t cols, bool sums,
               std::int64_t result_stride) {
    const RowRange range = whole.range;
    const std::int64_t row_bytes = std::int64_t{sizeof(double)} * cols;
    const std::int64_t held = kPartialsBytes / row_bytes;
    results = where.workspace;
    if (sums) results = results.subspan(kPartialsBytes);
    work = divided(whole, static_cast<std::int64_t>(results.size()), result_stride);
    if (sums && held <= kMergeBlocks) work = undivided(range);
    const std::int64_t blocks = work.host_split.empty() ? 0 : std::int64_t{kMergeBlocks};
    chunks = make_chunks(
        range.size(), 1,
        sums ? std::clamp<std::int64_t>(held - blocks, 1, kVectorChunks) : range.size());
    if (!sums) return;
    partial_rows = blocks + chunks.chunks;
    merged = reinterpret_cast<double*>(where.workspace.data());
    chunked = merged + blocks * cols;
  }
  void add_partials(const Launch& where, MatrixView dvector) const {
    if (partial_rows == 0) return;
    launch_finish<1>(where, partial_rows, dvector.cols, merged,
                     StoreSum{static_cast<float*>(dvector.data), /*accumulate=*/true});
  }
};

}  // namespace

void kernel(CudaBackend& backend, Queue& queue, const kernels::AttendBackwardTargets& call) {
  const auto& [op, rows, z, t, dy, attention, dt, coefficients, dvector, dedge_weight] = call;
  const Launch& where = launch_of(backend, queue);
  const SpmmWork work = work_of(op.prepared, rows);
  const bool additive = attention.score == AttentionScore::kAdditive;
  const TargetResult result{z.cols, attention.heads, attention.score == AttentionScore::kGatv2};
  const BackwardPlan plan(where, work, z.cols, !dvector.absent(), result.stride());
  with_element(z.dtype, [&]<typename T>(T) {
    with_head_lanes(
        attention_args<T>(op, z, t, dy, attention),
        {z, dy, additive ? z : t, additive ? z : ConstMatrixView(dt)},
        [&](const auto& a, const auto& grid, auto unit, auto units, auto narrow) {
          with_scores(attention, [&]<typename Score>(Score) {
            for_share_batches(
                plan.work, op.row_ptr, plan.chunks, plan.results, result.stride(),
                [&](RowShares shares, const SplitRows& split) {
                  const auto run = [&](bool second) {
                    launch(where, grid(shares.piece_count + shares.chunks.chunks),
                           kAttentionThreads, attend_targets_kernel<T, unit, units, narrow, Score>,
                           a, shares, result, second, rows_of<T>(dt), rows_of<float>(dt),
                           rows_of<float>(coefficients), plan.chunked);
                  };
                  run(false);
                  if (split.count == 0) return;
                  shares.chunks.chunks = 0;
                  run(true);
                  launch(where, merge_grid(z.cols), kMergeThreads, merge_targets_kernel<T, Score>,
                         a, split, result, rows_of<T>(dt), rows_of<float>(dt), plan.merged);
                });
          });
        });
  });
  plan.add_partials(where, dvector);
  if (dedge_weight.absent()) return;
  with_element(z.dtype, [&]<typename T>(T) {
    const AttentionArgs<T> a = attention_args<T>(op, z, t, {}, attention);
    sum_terms(where, all_shares(work, op.row_ptr), dedge_weight, {}, [&](const TermPass& pass) {
      return EdgeWeightGradients<T>{pass, a, rows_of<float>(ConstMatrixView(coefficients))};
    });
  });
}

void kernel(CudaBackend& backend, Queue& queue, const kernels::AttendBackwardSources& call) {
  const auto& [op, edges, sources, z, t, dy, coefficients, attention, dz, dvector] = call;
  const Launch& where = launch_of(backend, queue);
  const SpmmWork work = work_of(edges.prepared, sources);
  const bool additive = attention.score == AttentionScore::kAdditive;
  const SourceResult result{z.cols, attention.heads};
  const BackwardPlan plan(where, work, z.cols, !dvector.absent(), result.stride());
  const OutEdges out{edges.targets.data(), edges.edges.data()};
  with_element(z.dtype, [&]<typename T>(T) {
    with_head_lanes(
        attention_args<T>(op, z, t, dy, attention), {z, dy, additive ? z : t, dz},
        [&](const auto& a, const auto& grid, auto unit, auto units, auto narrow) {
          with_scores(attention, [&]<typename Score>(Score) {
            for_share_batches(
                plan.work, edges.row_ptr, plan.chunks, plan.results, result.stride(),
                [&](const RowShares& shares, const SplitRows& split) {
                  launch(where, grid(shares.piece_count + shares.chunks.chunks), kAttentionThreads,
                         attend_sources_kernel<T, unit, units, narrow, Score>, a, out, shares,
                         result, rows_of<float>(coefficients), rows_of<T>(dz), plan.chunked);
                  if (split.count == 0) return;
                  launch(where, merge_grid(z.cols), kMergeThreads, merge_sources_kernel<T, Score>,
                         a, split, result, work.range.begin, rows_of<T>(dz), plan.merged);
                });
          });
        });
  });
  plan.add_partials(where, dvector);
}

}  // namespace atl::cuda
