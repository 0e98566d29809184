// The common parts of the kernels of attention: how lanes stand on rows and heads, how rows and
// pieces of rows are shared among them, and products along the edges of a row.
//
// A warp takes a row and some of its heads, or several rows that are narrow: a team of lanes per
// head, a few columns per lane. All lanes of a row load the indices of as many edges together, and
// draw their dropout, an edge per lane; then they pass them around. A head of more columns than a
// team holds is divided among warps, each of which makes the scores for itself. Rows of many edges
// are divided into the pieces of SpmmWork, whose results are merged in their order.
#pragma once

#include <algorithm>
#include <cmath>

#include "kernels/attention.hpp"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/launch.hpp"
#include "kernels/cuda/row_shares.cuh"
#include "kernels/cuda/walk.hpp"

namespace atl::cuda {

inline constexpr int kAttentionThreads = 128;  // of a block
inline constexpr int kAttentionWarps = kAttentionThreads / 32;
// Blocks that shall fit a multiprocessor: 128, 168 or 255 registers of a thread. Without it the
// compiler spills some to fit one block more.
template <int kUnit, int kUnits, typename Score>
inline constexpr int kAttentionBlocks = kUnit* kUnits > (Score::kEdges ? 4 : 8) ? 2
                                        : kUnit* kUnits > 4 || Score::kEdges    ? 3
                                                                                : 4;
inline constexpr int kNeighboursAhead = 4;  // whose rows are loaded before the first is used

// Kinds of scores, each with kernels of its own: so none pays for what another needs.
struct AdditiveScores {
  static constexpr AttentionScore kScore = AttentionScore::kAdditive;
  static constexpr bool kEdges = false;
};
struct Gatv2Scores {
  static constexpr AttentionScore kScore = AttentionScore::kGatv2;
  static constexpr bool kEdges = false;
};
struct Gatv2EdgeScores {  // edges have features (AttentionEdges)
  static constexpr AttentionScore kScore = AttentionScore::kGatv2;
  static constexpr bool kEdges = true;
};
struct DotScores {
  static constexpr AttentionScore kScore = AttentionScore::kDot;
  static constexpr bool kEdges = false;
};

// Arguments that all rows share; absent parts are null.
template <typename T>
struct AttentionArgs {
  const std::int64_t* row_ptr;
  const std::int32_t* col_idx;
  std::int64_t nnz;
  std::int64_t rows;  // of the operator
  Rows<const T> z;
  Rows<const T> t;
  Rows<const float> target_scores;  // t of additive
  Rows<const float> source_scores;
  Rows<const float> edge_scores;  // may be null
  const float* edge_features;     // AttentionEdges: kernels with kEdges read it
  const float* self_features;
  Rows<const float> edge_weight;
  std::int64_t feature_count;
  const float* vector;
  Rows<const T> dy;
  std::int64_t heads;
  std::int64_t each;  // columns of a head
  float slope;
  float root;  // 1 / sqrt(each)
  bool with_self;
  int team;            // lanes of a head
  int row_lanes;       // lanes of a row: 32, or fewer of narrow ones
  std::int64_t tiles;  // warps that share a head's columns
  std::uint32_t threshold;
  std::int64_t heads_before;  // that dropout counts
  float dropout_scale;
  RandomKey key;
  const EpochState* state;
  const GlobalId* row_ids;
  const GlobalId* col_ids;

  // Features of the edge whose coefficients lie at `place`.
  __device__ const float* features_at(std::int64_t place) const {
    return place < nnz ? edge_features + place * feature_count
                       : self_features + (place - nnz) * feature_count;
  }
  // One column of t, with the share of that edge.
  __device__ float with_edge(float of_row, std::int64_t place, std::int64_t col) const {
    const float* const features = features_at(place);
    float sum = of_row;
    for (std::int64_t k = 0; k < feature_count; ++k) {
      sum = fmaf(features[k], *edge_weight.at(k, col), sum);
    }
    return sum;
  }
  __device__ float leaky(float x) const { return x > 0 ? x : slope * x; }
  __device__ float leaky_slope(float x) const { return x > 0 ? 1.0F : slope; }
  __device__ bool drops() const { return threshold != 65536; }
  __device__ RandomKey key_now() const { return key_of_epoch(key, state); }
};

template <typename T>
AttentionArgs<T> attention_args(const SparseOperator& op, ConstMatrixView z, ConstMatrixView t,
                                ConstMatrixView dy, const AttentionSpec& spec) {
  AttentionArgs<T> a{};
  a.row_ptr = op.row_ptr.data();
  a.col_idx = op.col_idx.data();
  a.nnz = static_cast<std::int64_t>(op.col_idx.size());
  a.rows = op.rows;
  a.z = rows_of<T>(z);
  if (spec.score == AttentionScore::kAdditive) {
    a.target_scores = rows_of<float>(t);
    a.source_scores = rows_of<float>(spec.source_scores);
    a.edge_scores = rows_of<float>(spec.edge_scores);
  } else {
    a.t = rows_of<T>(t);
  }
  a.edge_features = spec.edges.features.data();
  a.self_features = spec.edges.of_self.data();
  a.edge_weight = rows_of<float>(spec.edges.weight);
  a.feature_count = spec.edges.count();
  a.vector = static_cast<const float*>(spec.vector.data);
  a.dy = rows_of<T>(dy);
  a.heads = spec.heads;
  a.each = z.cols / spec.heads;
  a.slope = static_cast<float>(spec.slope);
  a.root = static_cast<float>(1 / std::sqrt(static_cast<double>(a.each)));
  a.with_self = spec.with_self;
  a.threshold = spec.dropout.rate.threshold;
  if (spec.dropout.active()) {
    a.heads_before = spec.dropout.first_head;
    a.dropout_scale = spec.dropout.rate.scale;
    a.key = spec.dropout.key;
    a.state = spec.dropout.state;
    a.row_ids = spec.dropout.row_ids.data();
    a.col_ids = spec.dropout.col_ids.data();
  }
  return a;
}

// --- lanes
// ----------------------------------------------------------------------------------------

// Columns of one lane: kUnits units of kUnit.
template <int kUnit, int kUnits>
struct LaneColumns {
  Packed<float, kUnit> units[kUnits];
};

// Where a lane stands. Lanes beyond the last head go along with it and write nothing. kNarrow: a
// warp has several rows.
template <int kUnit, int kUnits, bool kNarrow>
struct HeadLane {
  std::int64_t index;  // of the lanes of a row, in the direction of rows
  unsigned mask;       // of them, within their warp; a constant unless kNarrow
  int of_row;          // the lane among them
  int lane;            // within the team
  int team;            // within the row
  std::int64_t head;
  bool inside;
  std::int64_t tile;
  std::int64_t cols[kUnits];  // of the matrix; of units that are not there, the head's first
  bool there[kUnits];

  template <typename T>
  __device__ explicit HeadLane(const AttentionArgs<T>& a) {
    const int of_warp = static_cast<int>(threadIdx.x) % 32;
    const int lanes = row_lanes(a);
    index = (std::int64_t{blockIdx.x} * kAttentionWarps + threadIdx.x / 32) * (32 / lanes) +
            of_warp / lanes;
    of_row = of_warp % lanes;
    mask = kNarrow ? (kFullWarp >> (32 - lanes)) << (of_warp - of_row) : kFullWarp;
    lane = of_row % a.team;
    team = of_row / a.team;
    tile = blockIdx.y % a.tiles;
    head = first_head(a) + team;
    inside = head < a.heads;
    if (!inside) head = a.heads - 1;
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      const std::int64_t col = ((tile * kUnits + u) * a.team + lane) * kUnit;
      there[u] = col < a.each;
      cols[u] = head * a.each + (there[u] ? col : 0);
    }
  }
  template <typename T>
  __device__ static int row_lanes(const AttentionArgs<T>& a) {
    return kNarrow ? a.row_lanes : 32;
  }
  template <typename T>
  __device__ std::int64_t first_head(const AttentionArgs<T>& a) const {
    return blockIdx.y / a.tiles * (32 / a.team);
  }
  // The lane that writes what a head has once.
  __device__ bool writes() const { return inside && tile == 0 && lane == 0; }

  template <typename T>
  __device__ void load_row(const Rows<const T>& from, std::int64_t i,
                           LaneColumns<kUnit, kUnits>& to) const {
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      to.units[u] = widen(load<kUnit>(from.at(i, cols[u])));
#pragma unroll
      for (float& value : to.units[u].values) value = there[u] ? value : 0.0F;
    }
  }
  // Adds what the edges with features at `features` add to the t of each, in one pass over the
  // weight.
  template <typename T, int kCount>
  __device__ void add_edges(const AttentionArgs<T>& a, const float* const (&features)[kCount],
                            LaneColumns<kUnit, kUnits> (&t)[kCount]) const {
    for (std::int64_t f = 0; f < a.feature_count; ++f) {
#pragma unroll
      for (int u = 0; u < kUnits; ++u) {
        Packed<float, kUnit> weight;
        load_parameters(a.edge_weight.at(f, 0), cols[u], 0.0F, weight);
#pragma unroll
        for (int n = 0; n < kCount; ++n) {
#pragma unroll
          for (int k = 0; k < kUnit; ++k) {
            float& to = t[n].units[u].values[k];
            to = fmaf(features[n][f], weight.values[k], to);
          }
        }
      }
    }
  }
  __device__ void load_vector(const float* from, LaneColumns<kUnit, kUnits>& to) const {
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
#pragma unroll
      for (int k = 0; k < kUnit; ++k) {
        to.units[u].values[k] = there[u] && from != nullptr ? from[cols[u] + k] : 0.0F;
      }
    }
  }
  // Stores what a piece has in each column, `to` being that of column 0.
  __device__ void store_columns(const LaneColumns<kUnit, kUnits>& from, float* to) const {
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      if (inside && there[u]) store(to + cols[u], from.units[u]);
    }
  }
};

// to = f(to, others...) in every column.
template <int kUnit, int kUnits, typename Function, typename... Others>
__device__ void for_lane_columns(const Function& f, LaneColumns<kUnit, kUnits>& to,
                                 Others&... others) {
#pragma unroll
  for (int u = 0; u < kUnits; ++u) {
#pragma unroll
    for (int k = 0; k < kUnit; ++k) f(to.units[u].values[k], others.units[u].values[k]...);
  }
}

// Sums over the team of each of the values; all lanes of a row must call.
template <int kCount>
__device__ void team_sums(unsigned mask, int team, float (&values)[kCount]) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    if (offset >= team) continue;
#pragma unroll
    for (float& value : values) value += __shfl_xor_sync(mask, value, offset);
  }
}

// --- edges of a row -----------------------------------------------------------------------------

// An in-edge that a lane holds for all of its row.
struct HeldEdge {
  std::int32_t source = 0;  // ~source of one that is passed over
  unsigned kept = ~0U;      // bit h: head h behind the lanes' first one keeps its coefficient
};

// The source of the k-th, if there is one.
template <typename T>
__device__ std::int32_t source_of(const AttentionArgs<T>& a, const RowEdges& of, std::int64_t k) {
  if (k >= of.count) return 0;
  if (of.is_self(k)) return static_cast<std::int32_t>(of.row);
  const std::int32_t source = a.col_idx[of.edge(k)];
  return a.with_self && source == of.row ? ~source : source;
}

// Bits of the heads that dropout keeps of the edge from `source`: a random block is that of eight.
template <typename T, int kUnit, int kUnits, bool kNarrow>
__device__ unsigned kept_heads(const AttentionArgs<T>& a,
                               const HeadLane<kUnit, kUnits, kNarrow>& at, const RandomKey& key,
                               std::int64_t row, std::int32_t source) {
  const auto first = static_cast<std::uint64_t>(a.heads_before + at.first_head(a));
  const int heads =
      static_cast<int>(min(std::int64_t{a.row_lanes / a.team}, a.heads - at.first_head(a)));
  const auto column = static_cast<std::uint32_t>(a.col_ids[source < 0 ? ~source : source]);
  // Heads of the first block that come before.
  const int passed = static_cast<int>(first % 8);
  unsigned kept = 0;
  for (int from = 0; from < passed + heads; from += 8) {
    const std::uint64_t octet = first / 8 + static_cast<std::uint64_t>(from / 8);
    const PhiloxBlock block =
        random_block(key, static_cast<std::uint64_t>(a.row_ids[row]) | octet << 32U, column);
    unsigned bits = 0;
#pragma unroll
    for (std::uint32_t h = 0; h < 8; ++h) {
      bits |= (dropout_half_word(block, h) < a.threshold ? 1U : 0U) << h;
    }
    kept |= from == 0 ? bits >> passed : bits << (from - passed);
  }
  return kept;
}

// body(k, held, first, here): the k-th edge of the row and those behind it, `here` of them and at
// most kNeighboursAhead, are held by the lanes from `first` on. All lanes of the row must call, and
// then call body.
template <bool kDropout, typename T, int kUnit, int kUnits, bool kNarrow, typename Body>
__device__ void for_in_edges(const AttentionArgs<T>& a, const HeadLane<kUnit, kUnits, kNarrow>& at,
                             const RandomKey& key, const RowEdges& edges, const Body& body) {
  std::int32_t next = source_of(a, edges, at.of_row);
#pragma unroll 1
  for (std::int64_t begin = 0; begin < edges.count; begin += at.row_lanes(a)) {
    HeldEdge held;
    held.source = next;
    next = source_of(a, edges, begin + at.row_lanes(a) + at.of_row);
    if (kDropout && a.drops() && begin + at.of_row < edges.count) {
      held.kept = kept_heads(a, at, key, edges.row, held.source);
    }
    const int count = static_cast<int>(min(edges.count - begin, std::int64_t{at.row_lanes(a)}));
#pragma unroll 1
    for (int k = 0; k < count; k += kNeighboursAhead) body(begin + k, held, k, count - k);
  }
}

// Some in-edges of a row, so that their rows travel at the same time.
template <int kUnit, int kUnits>
struct EdgesAhead {
  std::int64_t places[kNeighboursAhead];  // of their coefficients
  bool there[kNeighboursAhead];           // else it is the first once more
  bool counts[kNeighboursAhead];          // there, and not passed over
  LaneColumns<kUnit, kUnits> z[kNeighboursAhead];
  float scores[kNeighboursAhead];     // what leaky is not yet taken of, of additive; of dot without
                                      // its root
  float gradients[kNeighboursAhead];  // <dy_i, z_j>, if asked for
  float factors[kNeighboursAhead];    // what dropout multiplies alpha with
};

// A lane's part of row i.
template <int kUnit, int kUnits>
struct AttendingRow {
  LaneColumns<kUnit, kUnits> t;
  LaneColumns<kUnit, kUnits> vector;
  LaneColumns<kUnit, kUnits> dy;
};

template <typename Score, bool kGradient, typename T, int kUnit, int kUnits, bool kNarrow>
__device__ void load_target(const AttentionArgs<T>& a, const HeadLane<kUnit, kUnits, kNarrow>& at,
                            std::int64_t i, AttendingRow<kUnit, kUnits>& row) {
  row = {};
  if constexpr (Score::kScore != AttentionScore::kAdditive) at.load_row(a.t, i, row.t);
  if constexpr (Score::kScore == AttentionScore::kGatv2) at.load_vector(a.vector, row.vector);
  if constexpr (kGradient) at.load_row(a.dy, i, row.dy);
}

// Takes the edges that for_in_edges() names and starts to load their rows. All lanes of the row
// must call.
template <typename T, int kUnit, int kUnits, bool kNarrow>
__device__ void load_ahead(const AttentionArgs<T>& a, const HeadLane<kUnit, kUnits, kNarrow>& at,
                           const RowEdges& edges, std::int64_t k, const HeldEdge& held, int first,
                           int here, std::int32_t (&sources)[kNeighboursAhead],
                           EdgesAhead<kUnit, kUnits>& ahead) {
#pragma unroll
  for (int n = 0; n < kNeighboursAhead; ++n) {
    ahead.there[n] = n < here;
    const int of = ahead.there[n] ? n : 0;
    const std::int32_t source = __shfl_sync(at.mask, held.source, first + of, at.row_lanes(a));
    sources[n] = source < 0 ? ~source : source;
    ahead.counts[n] = ahead.there[n] && source >= 0;
    ahead.places[n] = edges.is_self(k + of) ? a.nnz + edges.row : edges.edge(k + of);
    at.load_row(a.z, sources[n], ahead.z[n]);
  }
}

// t of the row with what each of the edges adds.
template <typename T, int kUnit, int kUnits, bool kNarrow>
__device__ void load_edge_targets(const AttentionArgs<T>& a,
                                  const HeadLane<kUnit, kUnits, kNarrow>& at,
                                  const EdgesAhead<kUnit, kUnits>& ahead,
                                  const LaneColumns<kUnit, kUnits>& t,
                                  LaneColumns<kUnit, kUnits> (&targets)[kNeighboursAhead]) {
  const float* features[kNeighboursAhead];
#pragma unroll
  for (int n = 0; n < kNeighboursAhead; ++n) {
    features[n] = a.features_at(ahead.places[n]);
    targets[n] = t;
  }
  at.add_edges(a, features, targets);
}

// Terms of the sums over columns of a head, of one column.
template <typename Score, bool kGradient, typename T>
__device__ void add_products(const AttentionArgs<T>& a, float z, float t, float factor, float dy,
                             float& score, float& gradient) {
  if constexpr (Score::kScore == AttentionScore::kGatv2) {
    score = fmaf(factor, a.leaky(z + t), score);
  }
  if constexpr (Score::kScore == AttentionScore::kDot) score = fmaf(z, t, score);
  if constexpr (kGradient) gradient = fmaf(dy, z, gradient);
}

// True if a warp has all columns of its heads.
template <int kUnits, typename T>
__device__ bool whole_heads(const AttentionArgs<T>& a) {
  return kUnits == 1 || a.tiles == 1;
}

// Scores, products with the gradient and factors of dropout of edges whose rows are loaded.
// `targets`: t of each edge, with kEdges. All lanes of the row must call.
template <typename Score, bool kGradient, typename T, int kUnit, int kUnits, bool kNarrow,
          int kTargets>
__device__ void score_ahead(const AttentionArgs<T>& a, const HeadLane<kUnit, kUnits, kNarrow>& at,
                            std::int64_t i, const HeldEdge& held, int first, int here,
                            const std::int32_t (&sources)[kNeighboursAhead],
                            const AttendingRow<kUnit, kUnits>& row,
                            const LaneColumns<kUnit, kUnits> (&targets)[kTargets],
                            EdgesAhead<kUnit, kUnits>& ahead) {
  constexpr bool kAdditive = Score::kScore == AttentionScore::kAdditive;
  float sums[kNeighboursAhead * (kGradient && !kAdditive ? 2 : 1)] = {};
  float unused = 0;
#pragma unroll
  for (int n = 0; n < kNeighboursAhead; ++n) {
    float& score = kAdditive ? unused : sums[n];
    float& gradient = kGradient ? sums[kAdditive ? n : kNeighboursAhead + n] : unused;
    if (whole_heads<kUnits>(a)) {
      for_lane_columns(
          [&](float& z, float t, float factor, float dy) {
            add_products<Score, kGradient>(a, z, t, factor, dy, score, gradient);
          },
          ahead.z[n], Score::kEdges ? targets[Score::kEdges ? n : 0] : row.t, row.vector, row.dy);
    } else if (!kAdditive || kGradient) {
      for (std::int64_t c = at.lane; c < a.each; c += a.team) {
        const std::int64_t col = at.head * a.each + c;
        float t = a.t.data != nullptr ? to_f32(*a.t.at(i, col)) : 0.0F;
        if constexpr (Score::kEdges) t = a.with_edge(t, ahead.places[n], col);
        const float factor = a.vector != nullptr ? a.vector[col] : 0.0F;
        const float dy = kGradient ? to_f32(*a.dy.at(i, col)) : 0.0F;
        add_products<Score, kGradient>(a, to_f32(*a.z.at(sources[n], col)), t, factor, dy, score,
                                       gradient);
      }
    }
  }
  if constexpr (!kAdditive || kGradient) team_sums(at.mask, a.team, sums);
#pragma unroll
  for (int n = 0; n < kNeighboursAhead; ++n) {
    if constexpr (kAdditive) {
      ahead.scores[n] = *a.source_scores.at(sources[n], at.head) + *a.target_scores.at(i, at.head);
      if (a.edge_scores.data != nullptr) {
        ahead.scores[n] += *a.edge_scores.at(ahead.places[n], at.head);
      }
      if constexpr (kGradient) ahead.gradients[n] = sums[n];
    } else {
      ahead.scores[n] = sums[n];
      if constexpr (kGradient) ahead.gradients[n] = sums[kNeighboursAhead + n];
    }
    ahead.factors[n] = 1;
    if (a.drops()) {
      const unsigned kept =
          __shfl_sync(at.mask, held.kept, first + (n < here ? n : 0), at.row_lanes(a));
      ahead.factors[n] =
          (kept >> static_cast<unsigned>(at.team) & 1U) != 0 ? a.dropout_scale : 0.0F;
    }
  }
}

// The argument of exp, from the sums of EdgesAhead.
template <typename Score, typename T>
__device__ float score_of(const AttentionArgs<T>& a, float sum) {
  if constexpr (Score::kScore == AttentionScore::kAdditive) return a.leaky(sum);
  return Score::kScore == AttentionScore::kDot ? sum * a.root : sum;
}

// Softmax of the scores so far (Milakov and Gimelshein, "Online normalizer calculation for
// softmax", 2018).
struct Softmax {
  float most = -INFINITY;
  float norm = 0;

  // The base that scores are relative to. Those of edges that don't count are -infinity, and may be
  // alone.
  __device__ float base() const { return most == -INFINITY ? 0.0F : most; }
  // Takes a few scores in, and turns them into weights exp(score - base()); returns by what sums so
  // far are to be scaled.
  template <int kCount>
  __device__ float raise(float (&scores)[kCount]) {
    const float before = most;
#pragma unroll
    for (const float score : scores) most = score > most ? score : most;
    const float scale = expf(before - base());
    norm *= scale;
#pragma unroll
    for (float& score : scores) {
      score = expf(score - base());
      norm += score;
    }
    return scale;
  }
  // Takes in the softmax of other scores; returns by what their sums are to be scaled. Only after
  // `most` is that of all.
  __device__ float add(const Softmax& other) {
    const float scale = expf(other.most - base());
    norm = fmaf(other.norm, scale, norm);
    return scale;
  }
};

// Weights of the edges in the softmax, which takes them in, and by what sums so far are scaled.
template <typename Score, typename T, int kUnit, int kUnits>
__device__ float weigh(const AttentionArgs<T>& a, const EdgesAhead<kUnit, kUnits>& ahead,
                       Softmax& softmax, float (&weights)[kNeighboursAhead]) {
#pragma unroll
  for (int n = 0; n < kNeighboursAhead; ++n) {
    weights[n] = ahead.counts[n] ? score_of<Score>(a, ahead.scores[n]) : -INFINITY;
  }
  return softmax.raise(weights);
}

// The softmax of a row from those of its pieces. at(piece) is that of a piece.
template <typename At>
__device__ Softmax merged_softmax(std::int64_t pieces, const At& at) {
  Softmax all;
  for (std::int64_t piece = 0; piece < pieces; ++piece) {
    const float most = at(piece).most;
    all.most = most > all.most ? most : all.most;
  }
  return all;
}

// --- launches -----------------------------------------------------------------------------------

// Calls body(kind of scores).
template <typename Body>
void with_scores(const AttentionSpec& attention, const Body& body) {
  switch (attention.score) {
    case AttentionScore::kAdditive:
      return body(AdditiveScores{});
    case AttentionScore::kDot:
      return body(DotScores{});
    case AttentionScore::kGatv2:
      break;
  }
  if (attention.edges.absent()) return body(Gatv2Scores{});
  body(Gatv2EdgeScores{});
}

// Calls body(a, grid, unit, units, narrow) with the widest accesses that heads and `views` allow;
// grid(n): of n shares.
template <typename T, typename Body>
void with_head_lanes(AttentionArgs<T> a, std::initializer_list<ConstMatrixView> views,
                     const Body& body) {
  const auto run = [&](auto unit, auto units, auto narrow) {
    const std::int64_t lanes = ceil_divide(a.each, std::int64_t{unit} * units);
    a.team = team_lanes(lanes, 1, 1);
    a.tiles = ceil_divide(lanes, 32);
    const std::int64_t groups = ceil_divide(a.heads, 32 / a.team);
    // A row takes at least as many lanes as it loads neighbours together.
    a.row_lanes = narrow ? std::max(kNeighboursAhead, team_lanes(a.heads * a.team, 1, 1)) : 32;
    const std::int64_t rows = kAttentionWarps * (32 / a.row_lanes);
    body(
        a,
        [&](std::int64_t shares) {
          return dim3(static_cast<unsigned>(ceil_divide(shares, rows)),
                      static_cast<unsigned>(groups * a.tiles));
        },
        unit, units, narrow);
  };
  const auto with_units = [&](auto unit) {
    constexpr std::bool_constant<false> kWide;
    if (a.each > 32 * unit) return run(unit, std::integral_constant<int, 2>{}, kWide);
    constexpr std::integral_constant<int, 1> kOne;
    // Heads that are not whole vectors are few or wide enough as a rule.
    if constexpr (unit > 1) {
      if (team_lanes(a.each, unit, 1) * a.heads <= 16) {
        return run(unit, kOne, std::bool_constant<true>{});
      }
    }
    run(unit, kOne, kWide);
  };
  const bool whole = a.each % kVector<T> == 0 && fits_vectors(kVector<T>, views);
  with_access<T>(whole, with_units);
}

}  // namespace atl::cuda
