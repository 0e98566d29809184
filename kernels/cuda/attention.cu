// Attention over in-edges. A warp takes a row and some of its heads, a team of lanes per head and a
// few columns per lane, and goes through the neighbours once: the sum and its norm are scaled down
// where a greater score comes (Milakov and Gimelshein, "Online normalizer calculation for softmax",
// 2018). A head of more columns than a team holds is divided among warps, each of which makes the
// scores for itself. A row stays with its warps however many neighbours it has.
#include <algorithm>
#include <cmath>

#include "kernels/cuda/each_element.cuh"
#include "kernels/cuda/operations.hpp"
#include "kernels/cuda/term_sums.cuh"

namespace atl::cuda {

namespace {

constexpr int kAttentionThreads = 128;  // of a block
constexpr int kAttentionWarps = kAttentionThreads / 32;
constexpr int kNeighboursAhead = 4;  // whose rows are loaded before the first is used
// Pieces of the rows that have a sum of `vector`'s gradient, at most.
constexpr std::int64_t kVectorChunks = 8448;

// What all rows share; absent parts are null.
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
  AttentionScore score;
  float slope;
  float root;  // 1 / sqrt(each)
  bool with_self;
  int team;            // lanes of a head
  std::int64_t tiles;  // warps that share a head's columns
  std::uint32_t threshold;
  float dropout_scale;
  RandomKey key;
  const EpochState* state;
  const GlobalId* row_ids;
  const GlobalId* col_ids;

  // Of the edge whose coefficients lie at `place`.
  __device__ const float* features_at(std::int64_t place) const {
    return place < nnz ? edge_features + place * feature_count
                       : self_features + (place - nnz) * feature_count;
  }
  // What t has in one column with what that edge adds.
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
  __device__ RandomKey key_now() const {
    RandomKey now = key;
    if (state != nullptr) now.epoch = state->epoch;
    return now;
  }
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
  a.score = spec.score;
  a.slope = static_cast<float>(spec.slope);
  a.root = static_cast<float>(1 / std::sqrt(static_cast<double>(a.each)));
  a.with_self = spec.with_self;
  a.threshold = spec.dropout.rate.threshold;
  if (spec.dropout.active()) {
    a.dropout_scale = spec.dropout.rate.scale;
    a.key = spec.dropout.key;
    a.state = spec.dropout.state;
    a.row_ids = spec.dropout.row_ids.data();
    a.col_ids = spec.dropout.col_ids.data();
  }
  return a;
}

// Columns of one lane: kUnits units of kUnit.
template <int kUnit, int kUnits>
struct LaneColumns {
  Packed<float, kUnit> units[kUnits];
};

// Where a lane stands. Lanes beyond the last head go along with it and write nothing.
template <int kUnit, int kUnits>
struct HeadLane {
  std::int64_t warp;  // in the direction of rows
  int lane;           // within the team
  std::int64_t head;
  bool inside;
  std::int64_t tile;
  std::int64_t cols[kUnits];  // of the matrix; of units that are not there, the head's first
  bool there[kUnits];

  template <typename T>
  __device__ explicit HeadLane(const AttentionArgs<T>& a) {
    const int of_warp = static_cast<int>(threadIdx.x) % 32;
    warp = std::int64_t{blockIdx.x} * kAttentionWarps + threadIdx.x / 32;
    lane = of_warp % a.team;
    tile = blockIdx.y % a.tiles;
    head = blockIdx.y / a.tiles * (32 / a.team) + of_warp / a.team;
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
};

// to = f(to, others...) in every column.
template <int kUnit, int kUnits, typename Function, typename... Others>
__device__ void for_lane_columns(const Function& f, LaneColumns<kUnit, kUnits>& to,
                                 const Others&... others) {
#pragma unroll
  for (int u = 0; u < kUnits; ++u) {
#pragma unroll
    for (int k = 0; k < kUnit; ++k) f(to.units[u].values[k], others.units[u].values[k]...);
  }
}

// Sums over columns of a head of one edge.
struct EdgeProducts {
  float score = 0;     // what leaky is not yet taken of, of additive; of dot without its root
  float gradient = 0;  // <dy_i, z_j>
};

// A term of both in one column.
template <typename T>
__device__ void add_products(const AttentionArgs<T>& a, float z, float t, float factor, float dy,
                             EdgeProducts& sums) {
  if (a.score == AttentionScore::kGatv2) sums.score = fmaf(factor, a.leaky(z + t), sums.score);
  if (a.score == AttentionScore::kDot) sums.score = fmaf(z, t, sums.score);
  sums.gradient = fmaf(dy, z, sums.gradient);
}

// What a lane keeps of row i.
template <int kUnit, int kUnits>
struct AttendingRow {
  LaneColumns<kUnit, kUnits> t;
  LaneColumns<kUnit, kUnits> vector;
  LaneColumns<kUnit, kUnits> dy;
};

// The in-edges of row i, the row itself first where it counts.
struct InEdges {
  std::int64_t row;
  std::int64_t begin;
  std::int64_t count;
  bool self;
};
struct InEdge {
  std::int64_t source;
  std::int64_t place;  // of its coefficients
  bool counts;         // false: it is passed over, or not there
};

template <typename T>
__device__ InEdges in_edges(const AttentionArgs<T>& a, std::int64_t i) {
  const std::int64_t begin = a.row_ptr[i];
  return {i, begin, a.row_ptr[i + 1] - begin + (a.with_self ? 1 : 0), a.with_self};
}
// The k-th; the first of those that are not there.
template <typename T>
__device__ InEdge in_edge(const AttentionArgs<T>& a, const InEdges& of, std::int64_t k) {
  const bool there = k < of.count;
  if (!there) k = 0;
  if (of.self && k == 0) return {of.row, a.nnz + of.row, there};
  const std::int64_t place = of.begin + k - (of.self ? 1 : 0);
  const std::int64_t source = a.col_idx[place];
  return {source, place, there && !(of.self && source == of.row)};
}

// What the additive score has of an edge itself.
template <typename T>
__device__ float edge_score(const AttentionArgs<T>& a, const InEdge& edge, std::int64_t head) {
  return a.edge_scores.data == nullptr ? 0.0F : *a.edge_scores.at(edge.place, head);
}

// Both sums in all lanes of the team; t of the row, or, with kEdges, of the edge. All lanes of the
// warp must call.
template <bool kGradient, bool kEdges, typename T, int kUnit, int kUnits>
__device__ EdgeProducts edge_products(const AttentionArgs<T>& a, const HeadLane<kUnit, kUnits>& at,
                                      std::int64_t i, const InEdge& edge, float of_edge,
                                      const AttendingRow<kUnit, kUnits>& row,
                                      const LaneColumns<kUnit, kUnits>& target,
                                      LaneColumns<kUnit, kUnits>& z) {
  const std::int64_t j = edge.source;
  EdgeProducts sums;
  if (a.tiles == 1) {
    for_lane_columns([&](float value, float t, float factor,
                         float dy) { add_products(a, value, t, factor, dy, sums); },
                     z, target, row.vector, row.dy);
  } else {
    for (std::int64_t c = at.lane; c < a.each; c += a.team) {
      const std::int64_t col = at.head * a.each + c;
      float t = a.t.data != nullptr ? to_f32(*a.t.at(i, col)) : 0.0F;
      if constexpr (kEdges) t = a.with_edge(t, edge.place, col);
      const float factor = a.vector != nullptr ? a.vector[col] : 0.0F;
      const float dy = kGradient ? to_f32(*a.dy.at(i, col)) : 0.0F;
      add_products(a, to_f32(*a.z.at(j, col)), t, factor, dy, sums);
    }
  }
  if (a.score == AttentionScore::kAdditive) {
    sums.score = *a.source_scores.at(j, at.head) + *a.target_scores.at(i, at.head) + of_edge;
  } else {
    sums.score = team_sum(sums.score, a.team);
  }
  if constexpr (kGradient) sums.gradient = team_sum(sums.gradient, a.team);
  return sums;
}

template <typename T>
__device__ float score_of(const AttentionArgs<T>& a, const EdgeProducts& sums) {
  if (a.score == AttentionScore::kAdditive) return a.leaky(sums.score);
  return a.score == AttentionScore::kDot ? sums.score * a.root : sums.score;
}

// What dropout multiplies alpha with.
template <typename T>
__device__ float kept_factor(const AttentionArgs<T>& a, const RandomKey& key, std::int64_t i,
                             std::int64_t j, std::int64_t head) {
  if (a.threshold == 65536) return 1;
  const std::uint64_t row =
      static_cast<std::uint64_t>(a.row_ids[i]) | static_cast<std::uint64_t>(head / 8) << 32U;
  const PhiloxBlock block = random_block(key, row, static_cast<std::uint32_t>(a.col_ids[j]));
  const bool keep = dropout_half_word(block, static_cast<std::uint32_t>(head % 8)) < a.threshold;
  return keep ? a.dropout_scale : 0.0F;
}

// The row as the kernels need it.
template <bool kGradient, typename T, int kUnit, int kUnits>
__device__ void load_target(const AttentionArgs<T>& a, const HeadLane<kUnit, kUnits>& at,
                            std::int64_t i, AttendingRow<kUnit, kUnits>& row) {
  row = {};
  if (a.score != AttentionScore::kAdditive) at.load_row(a.t, i, row.t);
  at.load_vector(a.vector, row.vector);
  if constexpr (kGradient) at.load_row(a.dy, i, row.dy);
}

// Softmax of the scores so far.
struct Softmax {
  float most = -INFINITY;
  float norm = 0;

  // Takes a few scores in; returns by what sums so far are to be scaled. exp(score - most) is a
  // score's weight then.
  template <int kCount>
  __device__ float raise(const float (&scores)[kCount]) {
    float next = most;
#pragma unroll
    for (const float score : scores) next = score > next ? score : next;
    const float scale = expf(most - next);
    most = next;
    norm *= scale;
#pragma unroll
    for (const float score : scores) norm += expf(score - most);
    return scale;
  }
};

// In-edges of a row that are read together, so that their rows travel at the same time.
template <int kUnit, int kUnits>
struct EdgesAhead {
  InEdge edges[kNeighboursAhead];
  LaneColumns<kUnit, kUnits> z[kNeighboursAhead];
  float scores[kNeighboursAhead];     // -infinity of those that don't count
  float gradients[kNeighboursAhead];  // dy . z, if asked for
};

// The k-th edge of row i and those behind it. All lanes of the warp must call.
template <bool kGradient, bool kEdges, typename T, int kUnit, int kUnits>
__device__ void score_ahead(const AttentionArgs<T>& a, const HeadLane<kUnit, kUnits>& at,
                            std::int64_t i, const InEdges& edges, std::int64_t k,
                            const AttendingRow<kUnit, kUnits>& row,
                            EdgesAhead<kUnit, kUnits>& ahead) {
#pragma unroll
  for (int n = 0; n < kNeighboursAhead; ++n) {
    ahead.edges[n] = in_edge(a, edges, k + n);
    at.load_row(a.z, ahead.edges[n].source, ahead.z[n]);
    ahead.scores[n] = edge_score(a, ahead.edges[n], at.head);
  }
  LaneColumns<kUnit, kUnits> with_edges[kEdges ? kNeighboursAhead : 1];
  if constexpr (kEdges) {
    const float* features[kNeighboursAhead];
#pragma unroll
    for (int n = 0; n < kNeighboursAhead; ++n) {
      features[n] = a.features_at(ahead.edges[n].place);
      with_edges[n] = row.t;
    }
    if (a.tiles == 1) at.add_edges(a, features, with_edges);
  }
#pragma unroll
  for (int n = 0; n < kNeighboursAhead; ++n) {
    const InEdge& edge = ahead.edges[n];
    const EdgeProducts found =
        edge_products<kGradient, kEdges>(a, at, i, edge, ahead.scores[n], row,
                                         kEdges ? with_edges[kEdges ? n : 0] : row.t, ahead.z[n]);
    ahead.scores[n] = edge.counts ? score_of(a, found) : -INFINITY;
    ahead.gradients[n] = found.gradient;
  }
}

// kEdges: edges have features (AttentionEdges), which kernels of their own read. So those without
// keep their registers.
template <typename T, int kUnit, int kUnits, bool kEdges>
__global__ void __launch_bounds__(kAttentionThreads)
    attend_kernel(AttentionArgs<T> a, RowRange range, EpilogueArgs epilogue, Rows<T> y) {
  const HeadLane<kUnit, kUnits> at(a);
  const std::int64_t i = range.begin + at.warp;
  if (i >= range.end) return;
  const RandomKey key = a.key_now();
  const InEdges edges = in_edges(a, i);
  AttendingRow<kUnit, kUnits> row;
  load_target<false>(a, at, i, row);
  LaneColumns<kUnit, kUnits> sums{};
  Softmax softmax;
  for (std::int64_t k = 0; k < edges.count; k += kNeighboursAhead) {
    EdgesAhead<kUnit, kUnits> ahead;
    score_ahead<false, kEdges>(a, at, i, edges, k, row, ahead);
    const float scale = softmax.raise(ahead.scores);
    for_lane_columns([&](float& sum) { sum *= scale; }, sums);
#pragma unroll
    for (int n = 0; n < kNeighboursAhead; ++n) {
      const InEdge& edge = ahead.edges[n];
      if (!edge.counts) continue;
      const float weight =
          expf(ahead.scores[n] - softmax.most) * kept_factor(a, key, i, edge.source, at.head);
      for_lane_columns([&](float& sum, float value) { sum = fmaf(weight, value, sum); }, sums,
                       ahead.z[n]);
    }
  }
  if (edges.count > 0) {
    const float factor = 1 / softmax.norm;
    for_lane_columns([&](float& sum) { sum *= factor; }, sums);
  }
#pragma unroll
  for (int u = 0; u < kUnits; ++u) {
    if (!at.inside || !at.there[u]) continue;
    store_finished(epilogue, y.at(i, at.cols[u]), i - range.begin, at.cols[u], a.heads * a.each,
                   sums.units[u]);
  }
}

// Adds to double sums of a warp's rows; stores them for the second stage.
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
  __device__ void store(const HeadLane<kUnit, kUnits>& at, double* to) const {
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      if (!at.inside || !at.there[u]) continue;
#pragma unroll
      for (int k = 0; k < kUnit; ++k) to[at.cols[u] + k] = sums[u][k];
    }
  }
};

// A warp takes the rows of a chunk. partials [chunks, columns], or null.
template <typename T, int kUnit, int kUnits, bool kEdges>
__global__ void __launch_bounds__(kAttentionThreads)
    attend_targets_kernel(AttentionArgs<T> a, RowRange range, Chunks chunks, Rows<T> dt,
                          Rows<float> target_gradients, Rows<float> coefficients,
                          double* partials) {
  const HeadLane<kUnit, kUnits> at(a);
  if (at.warp >= chunks.chunks) return;
  const RandomKey key = a.key_now();
  const bool additive = a.score == AttentionScore::kAdditive;
  const bool writes = at.inside && at.tile == 0 && at.lane == 0;  // what a head has once
  const std::int64_t first = range.begin + at.warp * chunks.rows_per_chunk;
  const std::int64_t end = min(first + chunks.rows_per_chunk, range.end);
  VectorSums<kUnit, kUnits> vector_sums;
  for (std::int64_t i = first; i < end; ++i) {
    const InEdges edges = in_edges(a, i);
    AttendingRow<kUnit, kUnits> row;
    load_target<true>(a, at, i, row);
    Softmax softmax;
    float mean = 0;
    for (std::int64_t k = 0; k < edges.count; k += kNeighboursAhead) {
      EdgesAhead<kUnit, kUnits> ahead;
      score_ahead<true, kEdges>(a, at, i, edges, k, row, ahead);
      mean *= softmax.raise(ahead.scores);
#pragma unroll
      for (int n = 0; n < kNeighboursAhead; ++n) {
        if (!ahead.edges[n].counts) continue;
        const float factor = kept_factor(a, key, i, ahead.edges[n].source, at.head);
        mean = fmaf(expf(ahead.scores[n] - softmax.most) * factor, ahead.gradients[n], mean);
      }
    }
    const float norm = 1 / softmax.norm;
    mean *= norm;

    LaneColumns<kUnit, kUnits> sums{};
    LaneColumns<kUnit, kUnits> leaky_sums{};
    float slope_sum = 0;
    for (std::int64_t k = 0; k < edges.count; ++k) {
      const InEdge edge = in_edge(a, edges, k);
      LaneColumns<kUnit, kUnits> z;
      at.load_row(a.z, edge.source, z);
      LaneColumns<kUnit, kUnits> with_edge[1];
      if constexpr (kEdges) {
        with_edge[0] = row.t;
        at.add_edges(a, {a.features_at(edge.place)}, with_edge);
      }
      const LaneColumns<kUnit, kUnits>& target = kEdges ? with_edge[0] : row.t;
      const EdgeProducts found =
          edge_products<true, kEdges>(a, at, i, edge, edge_score(a, edge, at.head), row, target, z);
      float alpha = 0;
      float slope = 0;
      if (edge.counts) {
        const float factor = kept_factor(a, key, i, edge.source, at.head);
        alpha = expf(score_of(a, found) - softmax.most) * norm;
        slope = alpha * (factor * found.gradient - mean);
        alpha *= factor;
        if (additive) slope *= a.leaky_slope(found.score);
      }
      if (writes) {
        *coefficients.at(edge.place, at.head) = alpha;
        *coefficients.at(edge.place, a.heads + at.head) = slope;
      }
      slope_sum += slope;
      if (a.score == AttentionScore::kDot) {
        for_lane_columns([&](float& sum, float value) { sum = fmaf(slope, value, sum); }, sums, z);
      } else if (!additive) {
        for_lane_columns([&](float& sum, float value,
                             float t) { sum = fmaf(slope, a.leaky_slope(value + t), sum); },
                         sums, z, target);
        for_lane_columns(
            [&](float& sum, float value, float t) { sum = fmaf(slope, a.leaky(value + t), sum); },
            leaky_sums, z, target);
      }
    }
    if (additive) {
      if (writes) *target_gradients.at(i, at.head) = slope_sum;
      continue;
    }
    if (a.score == AttentionScore::kDot) {
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
  if (partials != nullptr) vector_sums.store(at, partials + at.warp * a.heads * a.each);
}

// Edges by source in plain pointers.
struct OutEdges {
  const std::int64_t* row_ptr;
  const std::int32_t* targets;
  const std::int64_t* edges;
};

template <typename T, int kUnit, int kUnits, bool kEdges>
__global__ void __launch_bounds__(kAttentionThreads)
    attend_sources_kernel(AttentionArgs<T> a, OutEdges edges, RowRange range, Chunks chunks,
                          Rows<const float> coefficients, Rows<T> dz, double* partials) {
  const HeadLane<kUnit, kUnits> at(a);
  if (at.warp >= chunks.chunks) return;
  const bool additive = a.score == AttentionScore::kAdditive;
  const std::int64_t first = range.begin + at.warp * chunks.rows_per_chunk;
  const std::int64_t end = min(first + chunks.rows_per_chunk, range.end);
  LaneColumns<kUnit, kUnits> vector;
  at.load_vector(a.vector, vector);
  VectorSums<kUnit, kUnits> vector_sums;
  for (std::int64_t j = first; j < end; ++j) {
    const std::int64_t begin = edges.row_ptr[j];
    const bool self = a.with_self && j < a.rows;
    const std::int64_t count = edges.row_ptr[j + 1] - begin + (self ? 1 : 0);
    LaneColumns<kUnit, kUnits> z;
    at.load_row(a.z, j, z);
    LaneColumns<kUnit, kUnits> sums{};
    LaneColumns<kUnit, kUnits> score_sums{};
    float slope_sum = 0;
    for (std::int64_t k = 0; k < count; k += kNeighboursAhead) {
      LaneColumns<kUnit, kUnits> dy[kNeighboursAhead];
      LaneColumns<kUnit, kUnits> t[kNeighboursAhead];
      float alphas[kNeighboursAhead];
      float slopes[kNeighboursAhead];
      [[maybe_unused]] const float* features[kNeighboursAhead];
#pragma unroll
      for (int n = 0; n < kNeighboursAhead; ++n) {
        const std::int64_t here = k + n < count ? k + n : k;
        const bool itself = self && here == 0;
        const std::int64_t edge = begin + here - (self ? 1 : 0);
        const std::int64_t i = itself ? j : edges.targets[edge];
        const std::int64_t place = itself ? a.nnz + j : edges.edges[edge];
        at.load_row(a.dy, i, dy[n]);
        if (!additive) at.load_row(a.t, i, t[n]);
        alphas[n] = *coefficients.at(place, at.head);
        slopes[n] = *coefficients.at(place, a.heads + at.head);
        if constexpr (kEdges) features[n] = a.features_at(place);
      }
      if constexpr (kEdges) at.add_edges(a, features, t);
#pragma unroll
      for (int n = 0; n < kNeighboursAhead; ++n) {
        if (k + n >= count) continue;
        const float alpha = alphas[n];
        const float slope = slopes[n];
        for_lane_columns([&](float& sum, float value) { sum = fmaf(alpha, value, sum); }, sums,
                         dy[n]);
        if (additive) {
          slope_sum += slope;
        } else if (a.score == AttentionScore::kDot) {
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
    if (additive) {
      for_lane_columns([&](float& sum, float factor) { sum = fmaf(slope_sum, factor, sum); }, sums,
                       vector);
      for_lane_columns([&](float& value) { value *= slope_sum; }, z);
      vector_sums.add(z);
    } else if (a.score == AttentionScore::kDot) {
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
      store(dz.at(j - range.begin, at.cols[u]), narrow<T>(sums.units[u]));
    }
  }
  if (partials != nullptr) vector_sums.store(at, partials + at.warp * a.heads * a.each);
}

// Terms of the gradient of the weight of features of edges, from row `first_term` of it on.
template <typename T>
struct EdgeWeightGradients {
  static constexpr int kSums = kTermSums;
  static constexpr int kUnit = 1;
  static constexpr int kBatch = 1;
  struct Columns {};
  struct Held {};
  AttentionArgs<T> a;
  Rows<const float> coefficients;  // 0 of edges that are passed over
  std::int64_t first_row;
  std::int64_t first_col;
  std::int64_t first_term;

  __device__ Columns columns(std::int64_t) const { return {}; }
  __device__ Held load(std::int64_t, std::int64_t) const { return {}; }
  __device__ void add(const Columns&, std::int64_t row, std::int64_t col, const Held&,
                      double (&sums)[kSums][1]) const {
    const std::int64_t i = first_row + row;
    const std::int64_t c = first_col + col;
    const float t = to_f32(*a.t.at(i, c));
    const InEdges edges = in_edges(a, i);
    float along[kSums] = {};
    for (std::int64_t k = 0; k < edges.count; ++k) {
      const InEdge edge = in_edge(a, edges, k);
      const float inner = to_f32(*a.z.at(edge.source, c)) + a.with_edge(t, edge.place, c);
      const float slope = *coefficients.at(edge.place, a.heads + c / a.each) * a.leaky_slope(inner);
      const float* const features = a.features_at(edge.place);
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

struct AddToVector {
  float* to;
  __device__ void operator()(std::int64_t col, const double (&sums)[1]) const {
    to[col] = static_cast<float>(static_cast<double>(to[col]) + sums[0]);
  }
};

// Calls body(edges) with std::bool_constant<features of edges take part>.
template <typename Body>
void with_edges(const AttentionSpec& attention, const Body& body) {
  if (attention.edges.absent()) {
    body(std::bool_constant<false>{});
  } else {
    body(std::bool_constant<true>{});
  }
}

// Calls body(a, grid, unit, units) with the widest accesses that heads and `views` allow, `grid`
// for `warps` warps in the direction of rows.
template <typename T, typename Body>
void with_head_lanes(AttentionArgs<T> a, std::initializer_list<ConstMatrixView> views,
                     const Body& body) {
  const auto run = [&](auto unit, auto units) {
    const std::int64_t lanes = ceil_divide(a.each, std::int64_t{unit} * units);
    a.team = team_lanes(lanes, 1, 1);
    a.tiles = ceil_divide(lanes, 32);
    const std::int64_t groups = ceil_divide(a.heads, 32 / a.team);
    body(
        a,
        [&](std::int64_t warps) {
          return dim3(static_cast<unsigned>(ceil_divide(warps, kAttentionWarps)),
                      static_cast<unsigned>(groups * a.tiles));
        },
        unit, units);
  };
  const auto with_units = [&](auto unit) {
    if (a.each <= 32 * unit) return run(unit, std::integral_constant<int, 1>{});
    run(unit, std::integral_constant<int, 2>{});
  };
  const bool whole = a.each % kVector<T> == 0 && fits_vectors(kVector<T>, views);
  with_access<T>(whole, with_units);
}

// Rows in as many chunks as there are partial sums of `cols` columns, or a row in each.
Chunks attention_chunks(std::int64_t rows, std::int64_t cols, bool sums) {
  if (!sums) return make_chunks(rows, 1, rows);
  const std::int64_t held = kPartialsBytes / (std::int64_t{sizeof(double)} * cols);
  return make_chunks(rows, 1, std::clamp<std::int64_t>(held, 1, kVectorChunks));
}

void add_partials(const Launch& where, const Chunks& chunks, MatrixView dvector) {
  launch_finish<1>(where, chunks.chunks, dvector.cols,
                   reinterpret_cast<const double*>(where.workspace.data()),
                   AddToVector{static_cast<float*>(dvector.data)});
}

// --- heads --------------------------------------------------------------------------------------

// Lanes of a team sum a head of one row.
template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    head_dots_kernel(int team, std::int64_t rows, std::int64_t heads, std::int64_t each,
                     Rows<const T> x, const float* vector, Rows<float> out) {
  const std::int64_t index =
      (std::int64_t{blockIdx.x} * kBlockThreads + static_cast<int>(threadIdx.x)) / team;
  const int lane = static_cast<int>(threadIdx.x) % team;
  const bool inside = index < rows * heads;
  const std::int64_t i = inside ? index / heads : 0;
  const std::int64_t h = inside ? index % heads : 0;
  float sum = 0;
  for (std::int64_t c = h * each + lane; c < (h + 1) * each; c += team) {
    sum = fmaf(to_f32(*x.at(i, c)), vector[c], sum);
  }
  sum = team_sum(sum, team);
  if (inside && lane == 0) *out.at(i, h) = sum;
}

template <typename T>
struct SpreadDots {
  std::int64_t each;
  Rows<const float> d;
  const float* vector;
  __device__ float operator()(std::int64_t i, std::int64_t c) const {
    return *d.at(i, c / each) * vector[c];
  }
};

// Terms of dvector from column `first` on.
template <typename T>
struct DotGradients {
  static constexpr int kSums = 1;
  static constexpr int kUnit = 1;
  static constexpr int kBatch = 4;
  struct Columns {};
  struct Held {
    float x;
    float d;
  };
  std::int64_t each;
  std::int64_t first;
  Rows<const T> x;
  Rows<const float> d;

  __device__ Columns columns(std::int64_t) const { return {}; }
  __device__ Held load(std::int64_t i, std::int64_t col) const {
    return {to_f32(*x.at(i, first + col)), *d.at(i, (first + col) / each)};
  }
  __device__ void add(const Columns&, std::int64_t, std::int64_t, const Held& held,
                      double (&sums)[1][1]) const {
    sums[0][0] += static_cast<double>(held.x) * static_cast<double>(held.d);
  }
};

template <typename T>
struct MeanOfHeads {
  std::int64_t each;
  std::int64_t heads;
  Rows<const T> x;
  __device__ float operator()(std::int64_t i, std::int64_t c) const {
    float sum = 0;
    for (std::int64_t h = 0; h < heads; ++h) sum += to_f32(*x.at(i, h * each + c));
    return sum / static_cast<float>(heads);
  }
};

template <typename T>
struct SpreadMean {
  std::int64_t each;
  float heads;
  Rows<const T> dy;
  __device__ float operator()(std::int64_t i, std::int64_t c) const {
    return to_f32(*dy.at(i, c % each)) / heads;
  }
};

}  // namespace

void attend(const Launch& where, const SparseOperator& op, RowRange rows, ConstMatrixView z,
            ConstMatrixView t, const AttentionSpec& attention, MatrixView y,
            const Epilogue& epilogue) {
  with_element_type(z.dtype, [&]<typename T>(T) {
    const bool additive = attention.score == AttentionScore::kAdditive;
    with_head_lanes(attention_args<T>(op, z, t, {}, attention), {z, additive ? z : t, y},
                    [&](const auto& a, const auto& grid, auto unit, auto units) {
                      with_edges(attention, [&](auto edges) {
                        launch(where, grid(rows.size()), kAttentionThreads,
                               attend_kernel<T, unit, units, edges>, a, rows,
                               epilogue_args(epilogue), rows_of<T>(y));
                      });
                    });
  });
}

void attend_backward_targets(const Launch& where, const SparseOperator& op, RowRange rows,
                             ConstMatrixView z, ConstMatrixView t, ConstMatrixView dy,
                             const AttentionSpec& attention, MatrixView dt, MatrixView coefficients,
                             MatrixView dvector, MatrixView dedge_weight) {
  const bool additive = attention.score == AttentionScore::kAdditive;
  const Chunks chunks = attention_chunks(rows.size(), z.cols, !dvector.absent());
  auto* const partials =
      dvector.absent() ? nullptr : reinterpret_cast<double*>(where.workspace.data());
  with_element_type(z.dtype, [&]<typename T>(T) {
    with_head_lanes(attention_args<T>(op, z, t, dy, attention),
                    {z, dy, additive ? z : t, additive ? z : ConstMatrixView(dt)},
                    [&](const auto& a, const auto& grid, auto unit, auto units) {
                      with_edges(attention, [&](auto edges) {
                        launch(where, grid(chunks.chunks), kAttentionThreads,
                               attend_targets_kernel<T, unit, units, edges>, a, rows, chunks,
                               rows_of<T>(dt), rows_of<float>(dt), rows_of<float>(coefficients),
                               partials);
                      });
                    });
  });
  if (!dvector.absent()) add_partials(where, chunks, dvector);
  if (dedge_weight.absent()) return;
  with_element_type(z.dtype, [&]<typename T>(T) {
    const AttentionArgs<T> a = attention_args<T>(op, z, t, {}, attention);
    sum_terms(where, rows.size(), dedge_weight, {}, [&](std::int64_t col, std::int64_t term) {
      return EdgeWeightGradients<T>{a, rows_of<float>(ConstMatrixView(coefficients)), rows.begin,
                                    col, term};
    });
  });
}

void attend_backward_sources(const Launch& where, const SparseOperator& op,
                             const SourceEdges& edges, RowRange sources, ConstMatrixView z,
                             ConstMatrixView t, ConstMatrixView dy, ConstMatrixView coefficients,
                             const AttentionSpec& attention, MatrixView dz, MatrixView dvector) {
  const bool additive = attention.score == AttentionScore::kAdditive;
  const Chunks chunks = attention_chunks(sources.size(), z.cols, !dvector.absent());
  auto* const partials =
      dvector.absent() ? nullptr : reinterpret_cast<double*>(where.workspace.data());
  const OutEdges out{edges.row_ptr.data(), edges.targets.data(), edges.edges.data()};
  with_element_type(z.dtype, [&]<typename T>(T) {
    with_head_lanes(attention_args<T>(op, z, t, dy, attention), {z, dy, additive ? z : t, dz},
                    [&](const auto& a, const auto& grid, auto unit, auto units) {
                      with_edges(attention, [&](auto with_features) {
                        launch(where, grid(chunks.chunks), kAttentionThreads,
                               attend_sources_kernel<T, unit, units, with_features>, a, out,
                               sources, chunks, rows_of<float>(coefficients), rows_of<T>(dz),
                               partials);
                      });
                    });
  });
  if (!dvector.absent()) add_partials(where, chunks, dvector);
}

void head_dots(const Launch& where, ConstMatrixView x, ConstMatrixView vector, MatrixView out) {
  const std::int64_t each = x.cols / out.cols;
  const int team = team_lanes(each, 1, 1);
  with_element_type(x.dtype, [&]<typename T>(T) {
    launch(where, dim3(static_cast<unsigned>(ceil_divide(x.rows * out.cols * team, kBlockThreads))),
           kBlockThreads, head_dots_kernel<T>, team, x.rows, out.cols, each, rows_of<T>(x),
           static_cast<const float*>(vector.data), rows_of<float>(out));
  });
}

void head_dots_backward(const Launch& where, ConstMatrixView d, ConstMatrixView x,
                        ConstMatrixView vector, MatrixView dx, MatrixView dvector) {
  const std::int64_t each = x.cols / d.cols;
  auto* const partials = reinterpret_cast<double*>(where.workspace.data());
  with_element_type(x.dtype, [&]<typename T>(T) {
    for_elements<T>(where, dx,
                    SpreadDots<T>{each, rows_of<float>(d), static_cast<const float*>(vector.data)});
    for_column_passes(x.cols, [&](std::int64_t first, std::int64_t cols) {
      sum_columns(where, x.rows, cols,
                  DotGradients<T>{each, first, rows_of<T>(x), rows_of<float>(d)},
                  AddToVector{static_cast<float*>(dvector.data) + first}, partials);
    });
  });
}

void head_mean(const Launch& where, ConstMatrixView x, MatrixView y) {
  with_element_type(x.dtype, [&]<typename T>(T) {
    for_elements<T>(where, y, MeanOfHeads<T>{y.cols, x.cols / y.cols, rows_of<T>(x)});
  });
}

void head_mean_backward(const Launch& where, ConstMatrixView dy, MatrixView dx) {
  with_element_type(dy.dtype, [&]<typename T>(T) {
    const auto heads = static_cast<float>(dx.cols / dy.cols);
    for_elements<T>(where, dx, SpreadMean<T>{dy.cols, heads, rows_of<T>(dy)});
  });
}

}  // namespace atl::cuda
