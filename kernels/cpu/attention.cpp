// Attention over in-edges: a few neighbours at a time, as many as a vector has lanes, whose rows
// stay in the first cache between their scores and what is summed of them. Softmax is made as the
// blocks come (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018): what was
// summed before is scaled down where a block brings a greater score.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/edge_chunks.hpp"
#include "kernels/cpu/exponential.hpp"
#include "kernels/cpu/row_prefetch.hpp"
#include "kernels/cpu/vectors.hpp"

namespace atl {

namespace {

// How vectors take the columns of heads. Each head has whole ones: either its columns are so many,
// or rows are copied to f32 with zeros behind each head ("staged").
//
// Rows in f32 that are read beside these lie in the order of registers: as Unit loads them.
struct HeadShape {
  std::int64_t heads = 0;
  std::int64_t each = 0;    // columns of a head
  std::int64_t padded = 0;  // with zeros
  std::int64_t unit = 0;    // columns of a Unit
  int bytes = 0;            // of a vector
  int registers = 0;        // of a Unit
  bool staged = false;

  std::int64_t width() const { return heads * padded; }
  std::int64_t lanes() const { return bytes / 4; }
  // The place of column c of head h, in the order of registers.
  std::int64_t place(std::int64_t h, std::int64_t c) const {
    const std::int64_t within = c % unit;
    const std::int64_t lane = registers == 1 ? within : within % 2 * lanes() + within / 2;
    return h * padded + c - within + lane;
  }
};

constexpr float kNoScore = -std::numeric_limits<float>::infinity();
// That have sums of the gradients of `vector` and of the weight of features of edges; the latter
// take so many bytes at most.
constexpr std::int64_t kMostVectorChunks = 256;
constexpr std::int64_t kWeightSumBytes = std::int64_t{16} << 20;
constexpr std::int64_t kHeldEdges = 128;  // of a row whose scores stay beside it
constexpr std::int64_t kMostLanes = 16;
constexpr std::int64_t kRowsAhead = 1;  // before its turn, what only a row itself reads is fetched

constexpr std::int64_t round_up(std::int64_t count, std::int64_t unit) {
  return (count + unit - 1) / unit * unit;
}

// Others would be compiled for old processors alone.
constexpr bool always_staged(int bytes) { return kBaselineIsOld && bytes == 16; }

// The widest vectors that fit a head, or that pad it least.
HeadShape head_shape(Isa isa, DType dtype, std::int64_t heads, std::int64_t cols) {
  const auto size = static_cast<int>(bytes_of(dtype));
  HeadShape shape;
  shape.heads = heads;
  shape.each = cols / heads;
  shape.bytes = isa == Isa::kAvx512 ? 64 : isa == Isa::kAvx2 ? 32 : 16;
  const auto fits = [&](int bytes) { return shape.each % (bytes / size) == 0; };
  const bool narrow = fits(shape.bytes / 2) || shape.each <= shape.bytes / 8;
  if (shape.bytes == 64 && !fits(64) && narrow) shape.bytes = 32;
  shape.staged = always_staged(shape.bytes) || !fits(shape.bytes);
  shape.unit = shape.bytes / (shape.staged ? 4 : size);
  shape.registers = shape.staged || dtype == DType::kF32 ? 1 : 2;
  shape.padded = round_up(shape.each, shape.unit);
  return shape;
}

// `row`, of the columns of heads, in the order of registers.
void put_in_order(const HeadShape& shape, const float* row, float* to) {
  std::fill_n(to, shape.width(), 0.0F);
  for (std::int64_t h = 0; h < shape.heads; ++h) {
    for (std::int64_t c = 0; c < shape.each; ++c) to[shape.place(h, c)] = row[h * shape.each + c];
  }
}

// Arguments that all rows share.
struct Attending {
  HeadShape shape;
  const SparseOperator* op = nullptr;
  const SourceEdges* by_source = nullptr;  // of the half along sources
  const AttentionSpec* spec = nullptr;
  RandomKey key = {};  // of dropout, with the epoch that counts
  ConstMatrixView z = {};
  ConstMatrixView t = {};
  ConstMatrixView dy = {};
  ConstMatrixView coefficients = {};
  const float* vector = nullptr;       // in the order of registers
  const float* edge_weight = nullptr;  // the same, a row per feature
  float slope = 0;
  float root = 1;  // 1 / sqrt(columns of a head) of dot, else 1
  Prefetching ahead = {};
};

// How many floats attending() writes.
std::int64_t shared_floats(const HeadShape& shape, const AttentionSpec& spec) {
  return round_up(shape.width(), kMostLanes) + spec.edges.count() * shape.width();
}

Attending attending(const HeadShape& shape, const SparseOperator& op, const AttentionSpec& spec,
                    ConstMatrixView z, ConstMatrixView t, ConstMatrixView dy, float* shared) {
  Attending a;
  a.shape = shape;
  a.op = &op;
  a.spec = &spec;
  if (spec.dropout.active()) a.key = spec.dropout.key_now();
  a.z = z;
  a.t = t;
  a.dy = dy;
  if (!spec.vector.absent()) {
    put_in_order(shape, spec.vector.row<float>(0), shared);
    a.vector = shared;
  }
  float* const weight = shared + round_up(shape.width(), kMostLanes);
  for (std::int64_t k = 0; k < spec.edges.count(); ++k) {
    put_in_order(shape, spec.edges.weight.row<float>(k), weight + k * shape.width());
  }
  a.edge_weight = weight;
  a.slope = static_cast<float>(spec.slope);
  if (spec.score == AttentionScore::kDot) {
    a.root = static_cast<float>(1 / std::sqrt(static_cast<double>(shape.each)));
  }
  a.ahead = prefetching(z.cols * bytes_of(z.dtype));
  return a;
}

// A thread's memory for the row that it is at. Arrays of `columns` lie in the order of registers;
// of a block of edges, lane e of head h is at h * lanes + e.
struct AttentionScratch {
  // columns
  float* target;    // t_i times `root`; along sources: z_j
  float* gradient;  // dy_i
  float* sums;
  float* more_sums;
  float* staged;       // rows of a block
  float* more_staged;  // the same of a second matrix
  // Vectors of a block whose lanes add up to a score each, lanes of edge e of head h from (h *
  // lanes + e) * lanes on; and to <dy_i, z_j>.
  float* score_parts;
  float* gradient_parts;
  float* scores;
  float* gradients;
  float* factors;  // of dropout
  float* weights;
  float* slopes;  // gradients of scores
  // The first three of these of all edges of a row, of kHeldEdges at most.
  float* held;
  // heads, a vector of each: sums over edges by lane
  float* norm;
  float* mean;
  // heads
  float* most;
  float* new_most;
  float* scale;

  // Takes the arrays from `memory`, if there is any; returns how many floats they have.
  std::int64_t take(const HeadShape& shape, float* memory) {
    std::int64_t taken = 0;
    const auto array = [&](float*& data, std::int64_t count) {
      data = memory == nullptr ? nullptr : memory + taken;
      taken += round_up(count, kMostLanes);
    };
    const std::int64_t lanes = shape.lanes();
    const std::int64_t block = shape.heads * lanes;
    for (float** data : {&target, &gradient, &sums, &more_sums}) array(*data, shape.width());
    for (float** data : {&staged, &more_staged}) {
      array(*data, shape.staged ? lanes * shape.width() : 0);
    }
    for (float** data : {&score_parts, &gradient_parts}) array(*data, block * lanes);
    for (float** data : {&scores, &gradients, &factors, &weights, &slopes, &norm, &mean}) {
      array(*data, block);
    }
    array(held, 3 * shape.heads * round_up(kHeldEdges, lanes));
    for (float** data : {&most, &new_most, &scale}) array(*data, shape.heads);
    return taken;
  }
};

// The lane, of two vectors of `lanes` lanes counted on into the second, that lane k of the sums of
// neighbours, or of neighbouring pieces of 16 bytes, begins with.
constexpr int even_lane(int k, int lanes, bool inside) {
  const int piece = k / 4;
  const int within = k % 4;
  if (!inside) return 2 * piece * 4 + within;
  return within < 2 ? 4 * piece + 2 * within : lanes + 4 * piece + 2 * (within - 2);
}

// sums[k] = the sum of the lanes of vector k of `parts`, k < lanes. Neighbours are added inside 16
// bytes, then pieces of 16 bytes.
template <int kBytes, int kCount>
ATOLL_INLINE inline void fold_lanes(typename Vectors<kBytes>::Floats* v) {
  constexpr int kLanes = kBytes / 4;
  constexpr bool kInside = kCount * 4 > kLanes || kLanes == 4;
#pragma GCC unroll 8
  for (int k = 0; k < kCount / 2; ++k) {
    typename Vectors<kBytes>::Floats even;
    typename Vectors<kBytes>::Floats odd;
    shuffle(
        v[2 * k], v[2 * k + 1], [](int lane) { return even_lane(lane, kLanes, kInside); }, even);
    shuffle(
        v[2 * k], v[2 * k + 1],
        [](int lane) { return even_lane(lane, kLanes, kInside) + (kInside ? 1 : 4); }, odd);
    v[k] = even + odd;
  }
  if constexpr (kCount > 2) fold_lanes<kBytes, kCount / 2>(v);
}

// Lane k of sums = the sum of the lanes of vector k of `parts`, k < count; other lanes are
// anything. kCount: so many vectors are folded together, of as many lanes each once their pieces of
// that length are added.
template <int kBytes, int kCount = kBytes / 4>
ATOLL_INLINE inline void lane_sums(const float* parts, std::int64_t count,
                                   typename Vectors<kBytes>::Floats& sums) {
  constexpr int kLanes = kBytes / 4;
  if constexpr (kCount > 4) {
    if (count <= kCount / 2) return lane_sums<kBytes, kCount / 2>(parts, count, sums);
  }
  using Piece = typename Vectors<4 * kCount>::Floats;
  Piece v[kCount];
#pragma GCC unroll 16
  for (int k = 0; k < kCount; ++k) {
    std::memcpy(&v[k], parts + k * kLanes, sizeof(Piece));
#pragma GCC unroll 4
    for (int at = kCount; at < kLanes; at += kCount) {
      Piece more;
      std::memcpy(&more, parts + k * kLanes + at, sizeof(Piece));
      v[k] += more;
    }
  }
  fold_lanes<4 * kCount, kCount>(v);
  if constexpr (kCount == kLanes) {
    sums = v[0];
  } else {
    [&]<int... kLane>(std::integer_sequence<int, kLane...>) ATOLL_INLINE {
      sums = __builtin_shufflevector(v[0], v[0], (kLane % kCount)...);
    }
    (std::make_integer_sequence<int, kLanes>());
  }
}

// A lane that is NaN may be passed over: its weight is NaN all the same.
template <int kBytes>
ATOLL_INLINE inline float lane_max(const typename Vectors<kBytes>::Floats& of) {
  using Floats = typename Vectors<kBytes>::Floats;
  Floats v = of;
  fold(v, [](const Floats& a, const Floats& b, Floats& to) ATOLL_INLINE { to = b > a ? b : a; });
  return v[0];
}

template <int kBytes>
ATOLL_INLINE inline float lane_sum(const float* from) {
  float sum = 0;
#pragma GCC unroll 16
  for (int k = 0; k < kBytes / 4; ++k) sum += from[k];
  return sum;
}

// Draws the factors by which dropout multiplies alpha of the edges from `sources` to row i.
void draw_factors(const Attending& a, std::int64_t i, std::span<const std::int32_t> sources,
                  float* factors) {
  constexpr std::int64_t kHeadsPerBlock = 8;
  const AttentionDropout& dropout = a.spec->dropout;
  const auto target = static_cast<std::uint64_t>(to_index(dropout.row_ids[i]));
  // By number among all heads.
  const std::int64_t own = dropout.first_head;
  const std::int64_t last = own + a.shape.heads;
  for (std::int64_t block = own / kHeadsPerBlock; block * kHeadsPerBlock < last; ++block) {
    const std::uint64_t row = target | static_cast<std::uint64_t>(block) << 32U;
    const std::int64_t first = std::max(own, block * kHeadsPerBlock);
    const std::int64_t end = std::min(last, (block + 1) * kHeadsPerBlock);
    for (std::size_t e = 0; e < sources.size(); ++e) {
      const auto source = static_cast<std::uint32_t>(to_index(dropout.col_ids[sources[e]]));
      const PhiloxBlock drawn = random_block(a.key, row, source);
      for (std::int64_t h = first; h < end; ++h) {
        const std::uint32_t half =
            dropout_half_word(drawn, static_cast<std::uint32_t>(h % kHeadsPerBlock));
        factors[(h - own) * a.shape.lanes() + static_cast<std::int64_t>(e)] =
            half < dropout.rate.threshold ? dropout.rate.scale : 0.0F;
      }
    }
  }
}

// Row i of `from` times `factor`, between the zeros that `to` has behind every head; and the other
// way.
void stage_row(const HeadShape& shape, ConstMatrixView from, std::int64_t i, float factor,
               float* to) {
  with_element(from.dtype, [&]<typename T>(T) {
    const T* row = from.row<T>(i);
    for (std::int64_t h = 0; h < shape.heads; ++h, row += shape.each, to += shape.padded) {
      for (std::int64_t c = 0; c < shape.each; ++c) to[c] = load(row, c) * factor;
    }
  });
}
void unstage_row(const HeadShape& shape, const float* from, MatrixView to, std::int64_t i) {
  with_element(to.dtype, [&]<typename T>(T) {
    T* row = to.row<T>(i);
    for (std::int64_t h = 0; h < shape.heads; ++h, row += shape.each, from += shape.padded) {
      for (std::int64_t c = 0; c < shape.each; ++c) store(row, c, from[c]);
    }
  });
}

ATOLL_INLINE inline const char* bytes_at(ConstMatrixView view, std::int64_t i) {
  return static_cast<const char*>(view.data) + i * view.stride * bytes_of(view.dtype);
}

// The work on single rows, by one thread. kEdges: of gatv2 with features of edges; a class of its
// own, so that the others stay as small as they are.
template <int kBytes, typename T, bool kStaged, bool kEdges>
class RowAttention {
 public:
  using Element = T;  // of rows as vectors read them: f32 of staged ones
  using Columns = Unit<kBytes, Element>;
  using Floats = typename Vectors<kBytes>::Floats;
  static constexpr int kEach = Columns::kRegisters;
  static constexpr std::int64_t kLanes = Vectors<kBytes>::kLanes;

  ATOLL_INLINE RowAttention(const Attending& a, const AttentionScratch& s)
      : a_(a),
        s_(s),
        heads_(a.shape.heads),
        padded_(a.shape.padded),
        width_(a.shape.width()),
        head_bytes_(a.shape.each * bytes_of(a.z.dtype)),
        slope_(a.slope),
        nnz_(static_cast<std::int64_t>(a.op->col_idx.size())),
        features_(a.spec->edges.count()),
        score_(kEdges ? AttentionScore::kGatv2 : a.spec->score) {
    // Padding stays zero from here on.
    if constexpr (kStaged) {
      std::fill_n(s.target, width_, 0.0F);
      std::fill_n(s.gradient, width_, 0.0F);
      std::fill_n(s.staged, kLanes * width_, 0.0F);
      std::fill_n(s.more_staged, kLanes * width_, 0.0F);
    }
    // Lanes of heads that are not there.
    for (float* array : {s.most, s.new_most, s.scale}) {
      std::fill_n(array, round_up(heads_, kMostLanes), 0.0F);
    }
  }

  ATOLL_INLINE void attend(std::int64_t i, MatrixView out, std::int64_t out_row) const {
    prefetch_own(a_.t, i + kRowsAhead);
    Cursor cursor = start(i);
    prepare_target(i);
    std::fill_n(s_.sums, width_, 0.0F);
    Block block;
    while (fill(cursor, block)) {
      score<false>(block, i);
      find_most(block);
      for (std::int64_t h = 0; h < heads_; ++h) {
        Floats weight;
        Floats norm;
        raise(h, weight, norm);
        if (a_.spec->dropout.active()) weight *= at(s_.factors + h * kLanes);
        put(weight, s_.weights + h * kLanes);
      }
      add_rows(block, s_.weights, s_.scale, s_.sums);
    }
    for (std::int64_t h = 0; h < heads_ && cursor.found; ++h) {
      const float factor = 1 / lane_sum<kBytes>(s_.norm + h * kLanes);
      for (std::int64_t c = h * padded_; c < (h + 1) * padded_; c += kLanes) {
        put(at(s_.sums + c) * factor, s_.sums + c);
      }
    }
    write(s_.sums, out, out_row);
  }

  // sums: doubles in the order of registers, added to; of `vector`'s gradient, then of the rows of
  // the weight of features of edges, but for the factors in `vector`.
  ATOLL_INLINE void backward_target(std::int64_t i, MatrixView dt, MatrixView coefficients,
                                    double* sums) const {
    prefetch_own(a_.t, i + kRowsAhead);
    prefetch_own(a_.dy, i + kRowsAhead);
    Cursor cursor = start(i);
    prepare_target(i);
    prepare(a_.dy, i, 1, s_.gradient);
    std::fill_n(s_.mean, heads_ * kLanes, 0.0F);
    Block block;
    std::int64_t first = 0;
    for (; fill(cursor, block, &coefficients); first += kLanes) {
      score<true>(block, i);
      find_most(block);
      for (std::int64_t h = 0; h < heads_; ++h) {
        Floats weight;
        Floats norm;
        raise(h, weight, norm);
        Floats gradient;
        lane_sums<kBytes>(s_.gradient_parts + h * kLanes * kLanes, block.count, gradient);
        mask(block, 0, gradient);
        put(gradient, s_.gradients + h * kLanes);
        put(at(s_.mean + h * kLanes) * s_.scale[h] +
                weight * gradient * at(s_.factors + h * kLanes),
            s_.mean + h * kLanes);
      }
      // A row of one block finds what it needs again where it was.
      if (first == 0 && cursor.next == cursor.end) {
        begin_slopes(true);
        add_slopes(block, coefficients, sums);
        return finish_target(i, dt, sums);
      }
      hold(block, first, coefficients);
    }
    begin_slopes(first > 0);
    cursor = in_edges(i);
    for (first = 0; fill(cursor, block); first += kLanes) {
      recall(block, i, first, coefficients);
      add_slopes(block, coefficients, sums);
    }
    finish_target(i, dt, sums);
  }

  ATOLL_INLINE void backward_source(std::int64_t j, MatrixView dz, std::int64_t dz_row,
                                    double* dvector) const {
    prefetch_own(a_.z, j + kRowsAhead);
    prepare(a_.z, j, 1, s_.target);
    std::fill_n(s_.sums, width_, 0.0F);
    std::fill_n(s_.more_sums, width_, 0.0F);
    std::fill_n(s_.norm, heads_, 0.0F);
    const SourceEdges& edges = *a_.by_source;
    Targets block;
    std::int64_t k = edges.row_ptr[j];
    const std::int64_t end = edges.row_ptr[j + 1];
    bool self = a_.spec->with_self && j < a_.op->rows;
    while (self || k < end) {
      block.count = 0;
      if (self) add_target(j, nnz_ + j, 0, block);
      self = false;
      for (; k < end && block.count < kLanes; ++k) {
        add_target(edges.targets[k], edges.edges[k], k, block);
      }
      add_targets(block);
    }
    for (std::int64_t h = 0; h < heads_; ++h) {
      for (std::int64_t c = h * padded_; c < (h + 1) * padded_; c += kLanes) {
        Floats sum = at(s_.sums + c);
        if (score_ == AttentionScore::kGatv2) {
          sum += at(a_.vector + c) * at(s_.more_sums + c);
        } else if (score_ == AttentionScore::kDot) {
          sum += a_.root * at(s_.more_sums + c);
        } else {
          sum += s_.norm[h] * at(a_.vector + c);
          const Floats part = s_.norm[h] * at(s_.target + c);
          add_to(part, dvector + c);
        }
        put(sum, s_.sums + c);
      }
    }
    write(s_.sums, dz, dz_row);
  }

 private:
  // The in-edges of a row that are left.
  struct Cursor {
    std::int64_t row;
    std::int64_t next;
    std::int64_t end;
    bool self;
    bool found = false;  // any
  };
  // Rows that edges further on will need.
  struct NextRows {
    const char* far;
    const char* near;

    // Lines that begin in head h, if each has so many bytes: all heads together fetch a line once.
    ATOLL_INLINE void fetch(std::int64_t h, std::int64_t bytes) const {
      const std::int64_t first = round_up(h * bytes, kLine);
      const std::int64_t count = (h + 1) * bytes - first;
      prefetch<2>(far + first, count);
      prefetch<3>(near + first, count);
    }
  };
  // Edges whose rows are at hand.
  struct Block {
    std::int64_t count;
    const Element* rows[kLanes];
    std::int64_t places[kLanes];  // of coefficients
    std::int32_t sources[kLanes];
    NextRows ahead[kLanes];
  };
  // The same along a source: rows of dy and t, and coefficients.
  struct Targets {
    std::int64_t count;
    const Element* gradients[kLanes];
    const Element* targets[kLanes];
    const float* coefficients[kLanes];
    const float* features[kLanes];  // of edges, if they have any
    NextRows gradients_ahead[kLanes];
    NextRows targets_ahead[kLanes];
  };

  typedef float InMemory __attribute__((vector_size(kBytes), aligned(4), may_alias));
  static ATOLL_INLINE const InMemory& at(const float* from) {
    return *reinterpret_cast<const InMemory*>(from);
  }
  static ATOLL_INLINE void put(const InMemory& v, float* to) {
    *reinterpret_cast<InMemory*>(to) = v;
  }
  static ATOLL_INLINE void add_to(const Floats& v, double* to) {
    typedef double InMemoryDoubles __attribute__((vector_size(kBytes), aligned(8), may_alias));
    float lanes[kLanes];
    put(v, lanes);
    for (std::int64_t k = 0; k < kLanes; k += kLanes / 2) {
      typename Vectors<kBytes>::Doubles wide;
      load_doubles<kBytes>(lanes + k, wide);
      *reinterpret_cast<InMemoryDoubles*>(to + k) += wide;
    }
  }
  // Columns of a row of floats, in registers.
  template <int kCount>
  struct Registers {
    Floats each[kCount];

    ATOLL_INLINE Registers() {}
    ATOLL_INLINE explicit Registers(const float* from) {
#pragma GCC unroll 4
      for (int r = 0; r < kCount; ++r) each[r] = at(from + r * kLanes);
    }
    ATOLL_INLINE void store(float* to) const {
#pragma GCC unroll 4
      for (int r = 0; r < kCount; ++r) put(each[r], to + r * kLanes);
    }
    ATOLL_INLINE Floats& operator[](int r) { return each[r]; }
    ATOLL_INLINE const Floats& operator[](int r) const { return each[r]; }
  };
  // Nothing, where they are not needed.
  struct None {
    ATOLL_INLINE explicit None(const float*) {}
  };
  template <bool kNeeded, int kCount>
  using Needed = std::conditional_t<kNeeded, Registers<kCount>, None>;
  // An edge's share of t_i is added to a copy.
  template <bool kNeeded, int kCount>
  using EdgeTarget =
      std::conditional_t<kEdges && kNeeded, Registers<kCount>, const Needed<kNeeded, kCount>&>;
  // value = that of an edge that is there, else `otherwise`.
  static ATOLL_INLINE void mask(const Block& block, float otherwise, Floats& value) {
    Floats lanes;
    for (std::int64_t k = 0; k < kLanes; ++k) lanes[k] = static_cast<float>(k);
    value = lanes < static_cast<float>(block.count) ? value : Floats{} + otherwise;
  }

  ATOLL_INLINE void make_leaky(Floats& x) const { x = x > 0.0F ? x : x * slope_; }

  // Features of the edge whose coefficients lie at `place`.
  ATOLL_INLINE const float* features_at(std::int64_t place) const {
    const AttentionEdges& edges = a_.spec->edges;
    return place < nnz_ ? edges.features.data() + place * features_
                        : edges.of_self.data() + (place - nnz_) * features_;
  }
  // Adds the share of an edge to columns of its t_i, from column c on.
  template <int kCount>
  ATOLL_INLINE void add_edge(const float* features, std::int64_t c,
                             Registers<kCount>& target) const {
    const float* weight = a_.edge_weight + c;
    for (std::int64_t k = 0; k < features_; ++k, weight += width_) {
#pragma GCC unroll 4
      for (int r = 0; r < kCount; ++r) target[r] += at(weight + r * kLanes) * features[k];
    }
  }

  ATOLL_INLINE Cursor start(std::int64_t i) const {
    std::fill_n(s_.most, heads_, kNoScore);
    std::fill_n(s_.norm, heads_ * kLanes, 0.0F);
    return in_edges(i);
  }
  ATOLL_INLINE Cursor in_edges(std::int64_t i) const {
    return {i, a_.op->row_ptr[i], a_.op->row_ptr[i + 1], a_.spec->with_self};
  }

  // The entry of `list` that is `ahead` of `place`, or its last one; 0 if it is empty.
  template <typename Index>
  static ATOLL_INLINE std::int64_t index_ahead(std::span<const Index> list, std::int64_t place,
                                               std::int64_t ahead) {
    if (list.empty()) return 0;
    return list[std::min(place + ahead, static_cast<std::int64_t>(list.size()) - 1)];
  }

  // The next edges; false: there are none. Coefficients of edges that are passed over become 0.
  ATOLL_INLINE bool fill(Cursor& cursor, Block& block,
                         const MatrixView* coefficients = nullptr) const {
    block.count = 0;
    const auto add = [&](std::int64_t j, std::int64_t place) ATOLL_INLINE {
      if constexpr (kStaged) {
        float* const to = s_.staged + block.count * width_;
        stage_row(a_.shape, a_.z, j, 1, to);
        block.rows[block.count] = to;
      } else {
        block.rows[block.count] = a_.z.row<T>(j);
      }
      block.places[block.count] = place;
      block.sources[block.count] = static_cast<std::int32_t>(j);
      block.ahead[block.count] = {
          bytes_at(a_.z, index_ahead(a_.op->col_idx, place, a_.ahead.far)),
          bytes_at(a_.z, index_ahead(a_.op->col_idx, place, a_.ahead.near))};
      ++block.count;
    };
    if (cursor.self) add(cursor.row, nnz_ + cursor.row);
    cursor.self = false;
    for (; cursor.next < cursor.end && block.count < kLanes; ++cursor.next) {
      const std::int64_t j = a_.op->col_idx[cursor.next];
      if (!a_.spec->with_self || j != cursor.row) {
        add(j, cursor.next);
      } else if (coefficients != nullptr) {
        std::fill_n(coefficients->row<float>(cursor.next), 2 * heads_, 0.0F);
      }
    }
    cursor.found = cursor.found || block.count > 0;
    return block.count > 0;
  }

  // Row i of `from` times `factor` in the order of registers.
  ATOLL_INLINE void prepare(ConstMatrixView from, std::int64_t i, float factor, float* to) const {
    if constexpr (kStaged) {
      stage_row(a_.shape, from, i, factor, to);
    } else {
      for (std::int64_t c = 0; c < width_; c += Columns::kColumns) {
        Floats registers[kEach];
        Columns::load(from.row<T>(i) + c, registers);
#pragma GCC unroll 2
        for (int r = 0; r < kEach; ++r) put(registers[r] * factor, to + c + r * kLanes);
      }
    }
  }
  ATOLL_INLINE void prepare_target(std::int64_t i) const {
    if (score_ != AttentionScore::kAdditive) prepare(a_.t, i, a_.root, s_.target);
  }

  // The other way, rounded once to the type of `to`: that of z, or f32.
  ATOLL_INLINE void write(const float* from, MatrixView to, std::int64_t i) const {
    if constexpr (kStaged) {
      unstage_row(a_.shape, from, to, i);
    } else if (to.dtype == DType::kF32) {
      write_units(from, to.row<float>(i));
    } else if constexpr (!std::is_same_v<T, float>) {
      write_units(from, to.row<T>(i));
    }
  }
  template <typename Out>
  ATOLL_INLINE void write_units(const float* from, Out* to) const {
    for (std::int64_t c = 0; c < width_; c += Columns::kColumns) {
      Floats registers[kEach];
#pragma GCC unroll 2
      for (int r = 0; r < kEach; ++r) registers[r] = at(from + c + r * kLanes);
      Columns::store(registers, to + c);
    }
  }

  // A row that is read once, when its turn comes: the machine doesn't foresee it among the others.
  ATOLL_INLINE void prefetch_own(ConstMatrixView from, std::int64_t i) const {
    if (i < from.rows) prefetch<3>(bytes_at(from, i), from.cols * bytes_of(from.dtype));
  }

  // scores, of additive before leaky, of gatv2 and dot in parts; kGradients: parts of <dy_i, z_j>
  // too. And the factors of dropout.
  template <bool kGradients>
  ATOLL_INLINE void score(const Block& block, std::int64_t i) const {
    if (score_ == AttentionScore::kGatv2) {
      parts<AttentionScore::kGatv2, kGradients>(block);
    } else if (score_ == AttentionScore::kDot) {
      parts<AttentionScore::kDot, kGradients>(block);
    } else {
      const float* const target = a_.t.row<float>(i);
      for (std::int64_t e = 0; e < block.count; ++e) {
        const float* const source = a_.spec->source_scores.row<float>(block.sources[e]);
        const ConstMatrixView& edges = a_.spec->edge_scores;
        const float* const edge = edges.absent() ? nullptr : edges.row<float>(block.places[e]);
        for (std::int64_t h = 0; h < heads_; ++h) {
          float sum = source[h] + target[h];
          if (edge != nullptr) sum += edge[h];
          s_.scores[h * kLanes + e] = sum;
        }
      }
      if constexpr (kGradients) {
        parts<AttentionScore::kAdditive, true>(block);
      } else {
        for (std::int64_t h = 0; h < heads_; ++h) {
          for (std::int64_t e = 0; e < block.count; ++e) block.ahead[e].fetch(h, head_bytes_);
        }
      }
    }
    if (a_.spec->dropout.active()) {
      draw(block, i);
    } else if (kGradients) {
      std::fill_n(s_.factors, heads_ * kLanes, 1.0F);
    }
  }

  // A head at a time, whose columns of row i stay in registers.
  template <AttentionScore kScore, bool kGradients>
  ATOLL_INLINE void parts(const Block& block) const {
    for (std::int64_t h = 0; h < heads_; ++h) {
      for_units(h, [&]<int kCount>(std::int64_t first) ATOLL_INLINE {
        constexpr int kRegisters = kCount * kEach;
        const bool begins = first == h * padded_;
        const Needed<kScore != AttentionScore::kAdditive, kRegisters> own(s_.target + first);
        const Needed<kScore == AttentionScore::kGatv2, kRegisters> vector(a_.vector + first);
        const Needed<kGradients, kRegisters> of_y(s_.gradient + first);
        float* part = s_.score_parts + h * kLanes * kLanes;
        float* gradient_part = s_.gradient_parts + h * kLanes * kLanes;
        for (std::int64_t e = 0; e < block.count; ++e) {
          Floats score{};
          Floats gradient{};
          if (begins) {
            block.ahead[e].fetch(h, head_bytes_);
          } else {
            if constexpr (kScore != AttentionScore::kAdditive) score = at(part);
            if constexpr (kGradients) gradient = at(gradient_part);
          }
          EdgeTarget<kScore != AttentionScore::kAdditive, kRegisters> target = own;
          if constexpr (kEdges && kScore == AttentionScore::kGatv2) {
            add_edge(features_at(block.places[e]), first, target);
          }
#pragma GCC unroll 4
          for (int k = 0; k < kCount; ++k) {
            Floats row[kEach];
            Columns::load(block.rows[e] + first + k * Columns::kColumns, row);
#pragma GCC unroll 2
            for (int r = 0; r < kEach; ++r) {
              const int at = k * kEach + r;
              if constexpr (kScore == AttentionScore::kGatv2) {
                Floats inner = row[r] + target[at];
                make_leaky(inner);
                score += inner * vector[at];
              } else if constexpr (kScore == AttentionScore::kDot) {
                score += row[r] * target[at];
              }
              if constexpr (kGradients) gradient += row[r] * of_y[at];
            }
          }
          if constexpr (kScore != AttentionScore::kAdditive) put(score, part);
          if constexpr (kGradients) put(gradient, gradient_part);
          part += kLanes;
          gradient_part += kLanes;
        }
      });
    }
  }

  ATOLL_INLINE void draw(const Block& block, std::int64_t i) const {
    std::fill_n(s_.factors, heads_ * kLanes, 0.0F);
    draw_factors(a_, i, {block.sources, static_cast<std::size_t>(block.count)}, s_.factors);
  }

  // Whole scores, the greatest so far, and by what sums made with the one before are scaled.
  ATOLL_INLINE void find_most(const Block& block) const {
    for (std::int64_t h = 0; h < heads_; ++h) {
      Floats score;
      if (score_ == AttentionScore::kAdditive) {
        score = at(s_.scores + h * kLanes);
        make_leaky(score);
      } else {
        lane_sums<kBytes>(s_.score_parts + h * kLanes * kLanes, block.count, score);
      }
      mask(block, kNoScore, score);
      put(score, s_.scores + h * kLanes);
      s_.new_most[h] = lane_max<kBytes>(score);
    }
    for (std::int64_t h = 0; h < heads_; h += kLanes) {
      const Floats before = at(s_.most + h);
      const Floats found = at(s_.new_most + h);
      const Floats most = found > before ? found : before;
      const Floats below = before - most;
      Floats scale;
      exponential<kBytes>(below, scale);
      put(scale, s_.scale + h);
      put(most, s_.most + h);
    }
  }

  // weight = exp(score - most) of head h, added to the scaled norm.
  ATOLL_INLINE void raise(std::int64_t h, Floats& weight, Floats& norm) const {
    const Floats below = at(s_.scores + h * kLanes) - s_.most[h];
    exponential<kBytes>(below, weight);
    norm = at(s_.norm + h * kLanes) * s_.scale[h] + weight;
    put(norm, s_.norm + h * kLanes);
  }

  // Calls body.template operator()<kCount>(c) for kCount units from column c on that cover those of
  // a head.
  template <typename Body>
  ATOLL_INLINE void for_units(std::int64_t h, const Body& body) const {
    constexpr std::int64_t kUnit = Columns::kColumns;
    constexpr int kMost = 4 / kEach;
    std::int64_t c = h * padded_;
    const std::int64_t end = c + padded_;
    for (; c + kMost * kUnit <= end; c += kMost * kUnit) body.template operator()<kMost>(c);
    if constexpr (kMost > 2) {
      for (; c + 2 * kUnit <= end; c += 2 * kUnit) body.template operator()<2>(c);
    }
    for (; c < end; c += kUnit) body.template operator()<1>(c);
  }

  // sums = sums * scale[h] + the rows times their weights.
  ATOLL_INLINE void add_rows(const Block& block, const float* weights, const float* scale,
                             float* sums) const {
    for (std::int64_t h = 0; h < heads_; ++h) {
      const float* const weight = weights + h * kLanes;
      for_units(h, [&]<int kCount>(std::int64_t c) ATOLL_INLINE {
        Registers<kCount * kEach> sum(sums + c);
        if (scale != nullptr) {
#pragma GCC unroll 4
          for (Floats& each : sum.each) each *= scale[h];
        }
        for (std::int64_t e = 0; e < block.count; ++e) {
#pragma GCC unroll 4
          for (int k = 0; k < kCount; ++k) {
            Floats row[kEach];
            Columns::load(block.rows[e] + c + k * Columns::kColumns, row);
#pragma GCC unroll 2
            for (int r = 0; r < kEach; ++r) sum[k * kEach + r] += row[r] * weight[e];
          }
        }
        sum.store(sums + c);
      });
    }
  }

  // Scores, gradients of alpha and factors of a block that starts with edge `first` of its row are
  // kept beside it, or, of a long row, the first two in their coefficients.
  ATOLL_INLINE float* held(std::int64_t first) const {
    return first < kHeldEdges ? s_.held + 3 * heads_ * first : nullptr;
  }
  ATOLL_INLINE void hold(const Block& block, std::int64_t first, MatrixView coefficients) const {
    const auto bytes = static_cast<std::size_t>(heads_ * kLanes) * sizeof(float);
    if (float* const to = held(first); to != nullptr) {
      std::memcpy(to, s_.scores, bytes);
      std::memcpy(to + heads_ * kLanes, s_.gradients, bytes);
      std::memcpy(to + 2 * heads_ * kLanes, s_.factors, bytes);
    } else {
      write_coefficients(block, s_.scores, s_.gradients, coefficients);
    }
  }
  ATOLL_INLINE void recall(const Block& block, std::int64_t i, std::int64_t first,
                           MatrixView coefficients) const {
    const auto bytes = static_cast<std::size_t>(heads_ * kLanes) * sizeof(float);
    if (const float* const from = held(first); from != nullptr) {
      std::memcpy(s_.scores, from, bytes);
      std::memcpy(s_.gradients, from + heads_ * kLanes, bytes);
      std::memcpy(s_.factors, from + 2 * heads_ * kLanes, bytes);
      return;
    }
    std::fill_n(s_.scores, heads_ * kLanes, kNoScore);
    std::fill_n(s_.gradients, heads_ * kLanes, 0.0F);
    for (std::int64_t e = 0; e < block.count; ++e) {
      const float* const from = coefficients.row<float>(block.places[e]);
      for (std::int64_t h = 0; h < heads_; ++h) {
        s_.scores[h * kLanes + e] = from[h];
        s_.gradients[h * kLanes + e] = from[heads_ + h];
      }
    }
    if (a_.spec->dropout.active()) draw(block, i);
  }
  ATOLL_INLINE void write_coefficients(const Block& block, const float* first, const float* second,
                                       MatrixView coefficients) const {
    std::int64_t h = 0;
    for (; h + 4 <= heads_; h += 4) {
      for (std::int64_t e = 0; e < block.count; e += 4) {
        write_square(block, e, first + h * kLanes + e, h, coefficients);
        write_square(block, e, second + h * kLanes + e, heads_ + h, coefficients);
      }
    }
    for (; h < heads_; ++h) {
      for (std::int64_t e = 0; e < block.count; ++e) {
        float* const to = coefficients.row<float>(block.places[e]);
        to[h] = first[h * kLanes + e];
        to[heads_ + h] = second[h * kLanes + e];
      }
    }
  }
  // Writes the numbers of four edges from e on and four heads, which begin at `from`, to column
  // `column`.
  ATOLL_INLINE void write_square(const Block& block, std::int64_t e, const float* from,
                                 std::int64_t column, MatrixView coefficients) const {
    using Four = typename Vectors<16>::Floats;
    Four heads[4];
    Four pairs[4];
    Four edges[4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) std::memcpy(&heads[k], from + k * kLanes, sizeof(Four));
      // Numbers of two heads by turns, then of all four.
#pragma GCC unroll 2
    for (int k = 0; k < 2; ++k) {
      const auto first = [](int lane) { return lane / 2 + lane % 2 * 4; };
      const auto second = [](int lane) { return lane / 2 + lane % 2 * 4 + 2; };
      shuffle(heads[2 * k], heads[2 * k + 1], first, pairs[k]);
      shuffle(heads[2 * k], heads[2 * k + 1], second, pairs[2 + k]);
    }
#pragma GCC unroll 2
    for (int k = 0; k < 2; ++k) {
      const auto even = [](int lane) { return lane % 2 + lane / 2 * 4; };
      const auto odd = [](int lane) { return lane % 2 + lane / 2 * 4 + 2; };
      shuffle(pairs[2 * k], pairs[2 * k + 1], even, edges[2 * k]);
      shuffle(pairs[2 * k], pairs[2 * k + 1], odd, edges[2 * k + 1]);
    }
    const std::int64_t count = std::min<std::int64_t>(4, block.count - e);
    for (std::int64_t k = 0; k < count; ++k) {
      std::memcpy(coefficients.row<float>(block.places[e + k]) + column, &edges[k], sizeof(Four));
    }
  }

  // Once all scores of a row are known, of one that has any: scale becomes 1 / norm, and new_most
  // the mean of alpha's gradients.
  ATOLL_INLINE void begin_slopes(bool any) const {
    for (std::int64_t h = 0; h < heads_ && any; ++h) {
      s_.scale[h] = 1 / lane_sum<kBytes>(s_.norm + h * kLanes);
      s_.new_most[h] = lane_sum<kBytes>(s_.mean + h * kLanes) * s_.scale[h];
    }
    std::fill_n(slope_sums(), heads_ * kLanes, 0.0F);
    std::fill_n(s_.sums, width_, 0.0F);
    std::fill_n(s_.more_sums, width_, 0.0F);
  }
  // A vector of each head, for additive scores.
  ATOLL_INLINE float* slope_sums() const { return s_.norm; }

  // Coefficients of a block, and what it adds to dt_i and the other sums.
  ATOLL_INLINE void add_slopes(const Block& block, MatrixView coefficients, double* sums) const {
    const float* const mean = s_.new_most;
    for (std::int64_t h = 0; h < heads_; ++h) {
      const Floats score = at(s_.scores + h * kLanes);
      const Floats factor = at(s_.factors + h * kLanes);
      Floats alpha;
      exponential<kBytes>(score - s_.most[h], alpha);
      alpha *= s_.scale[h];
      Floats slope = alpha * (factor * at(s_.gradients + h * kLanes) - mean[h]);
      if (score_ == AttentionScore::kAdditive) {
        slope *= score > 0.0F ? Floats{} + 1.0F : Floats{} + slope_;
        put(at(slope_sums() + h * kLanes) + slope, slope_sums() + h * kLanes);
      }
      put(alpha * factor, s_.weights + h * kLanes);
      put(slope, s_.slopes + h * kLanes);
    }
    write_coefficients(block, s_.weights, s_.slopes, coefficients);
    if (score_ == AttentionScore::kGatv2) add_inner_slopes(block, sums + width_);
    if (score_ == AttentionScore::kDot) add_rows(block, s_.slopes, nullptr, s_.sums);
  }

  ATOLL_INLINE void finish_target(std::int64_t i, MatrixView dt, double* sums) const {
    if (score_ == AttentionScore::kAdditive) {
      float* const to = dt.row<float>(i);
      for (std::int64_t h = 0; h < heads_; ++h) to[h] = lane_sum<kBytes>(slope_sums() + h * kLanes);
      return;
    }
    for (std::int64_t c = 0; c < width_; c += kLanes) {
      const Floats sum = at(s_.sums + c);
      if (score_ == AttentionScore::kGatv2) {
        put(sum * at(a_.vector + c), s_.sums + c);
        const Floats part = at(s_.more_sums + c);
        add_to(part, sums + c);
      } else {
        put(sum * a_.root, s_.sums + c);
      }
    }
    write(s_.sums, dt, i);
  }

  // gatv2: sums += gradients of scores times leaky'(z_j + t_i), more_sums += times leaky(.);
  // kEdges: t_i with what edges add, and weight_sums += the former times features of edges.
  ATOLL_INLINE void add_inner_slopes(const Block& block, double* weight_sums) const {
    [[maybe_unused]] const float* features[kLanes];
    if constexpr (kEdges) {
      for (std::int64_t e = 0; e < block.count; ++e) features[e] = features_at(block.places[e]);
    }
    for (std::int64_t h = 0; h < heads_; ++h) {
      const float* const slopes = s_.slopes + h * kLanes;
      for_units(h, [&]<int kCount>(std::int64_t c) ATOLL_INLINE {
        Registers<kCount * kEach> sum(s_.sums + c);
        Registers<kCount * kEach> more(s_.more_sums + c);
        const Registers<kCount * kEach> own(s_.target + c);
        [[maybe_unused]] Floats inner_slopes[kEdges ? kLanes : 1][kCount * kEach];
        for (std::int64_t e = 0; e < block.count; ++e) {
          std::conditional_t<kEdges, Registers<kCount * kEach>, const Registers<kCount* kEach>&>
              target = own;
          if constexpr (kEdges) add_edge(features[e], c, target);
          const Floats above = slopes[e] - Floats{};
          const Floats below = above * slope_;
#pragma GCC unroll 4
          for (int k = 0; k < kCount; ++k) {
            Floats row[kEach];
            Columns::load(block.rows[e] + c + k * Columns::kColumns, row);
#pragma GCC unroll 2
            for (int r = 0; r < kEach; ++r) {
              const Floats inner = row[r] + target[k * kEach + r];
              const Floats slope = inner > 0.0F ? above : below;
              sum[k * kEach + r] += slope;
              more[k * kEach + r] += slope * inner;
              if constexpr (kEdges) inner_slopes[e][k * kEach + r] = slope;
            }
          }
        }
        if constexpr (kEdges) {
          double* to = weight_sums + c;
          for (std::int64_t k = 0; k < features_; ++k, to += width_) {
            Floats weight[kCount * kEach] = {};
            for (std::int64_t e = 0; e < block.count; ++e) {
#pragma GCC unroll 4
              for (int r = 0; r < kCount * kEach; ++r) {
                weight[r] += inner_slopes[e][r] * features[e][k];
              }
            }
#pragma GCC unroll 4
            for (int r = 0; r < kCount * kEach; ++r) add_to(weight[r], to + r * kLanes);
          }
        }
        sum.store(s_.sums + c);
        more.store(s_.more_sums + c);
      });
    }
  }

  ATOLL_INLINE void add_target(std::int64_t i, std::int64_t place, std::int64_t k,
                               Targets& block) const {
    const auto row = [&](ConstMatrixView view, float* staged) ATOLL_INLINE -> const Element* {
      if constexpr (kStaged) {
        float* const to = staged + block.count * width_;
        stage_row(a_.shape, view, i, 1, to);
        return to;
      } else {
        return view.row<T>(i);
      }
    };
    block.gradients[block.count] = row(a_.dy, s_.staged);
    if (score_ != AttentionScore::kAdditive) {
      block.targets[block.count] = row(a_.t, s_.more_staged);
    }
    block.coefficients[block.count] = a_.coefficients.row<float>(place);
    if constexpr (kEdges) block.features[block.count] = features_at(place);
    const SourceEdges& edges = *a_.by_source;
    const std::int64_t far = index_ahead(edges.targets, k, a_.ahead.far);
    const std::int64_t near = index_ahead(edges.targets, k, a_.ahead.near);
    block.gradients_ahead[block.count] = {bytes_at(a_.dy, far), bytes_at(a_.dy, near)};
    block.targets_ahead[block.count] = {bytes_at(a_.t, far), bytes_at(a_.t, near)};
    prefetch_edge<2>(index_ahead(edges.edges, k, a_.ahead.far));
    prefetch_edge<3>(index_ahead(edges.edges, k, a_.ahead.near));
    ++block.count;
  }

  template <int kCache>
  ATOLL_INLINE void prefetch_edge(std::int64_t place) const {
    if (nnz_ == 0) return;
    prefetch<kCache>(a_.coefficients.row<float>(place), 2 * heads_ * 4);
    if constexpr (kEdges) prefetch<kCache>(features_at(place), 4 * features_);
  }

  // sums += weights times rows of dy, more_sums += what is behind the scores' gradients.
  ATOLL_INLINE void add_targets(const Targets& block) const {
    if (score_ == AttentionScore::kGatv2) return add_targets_of<AttentionScore::kGatv2>(block);
    if (score_ == AttentionScore::kDot) return add_targets_of<AttentionScore::kDot>(block);
    add_targets_of<AttentionScore::kAdditive>(block);
  }
  template <AttentionScore kScore>
  ATOLL_INLINE void add_targets_of(const Targets& block) const {
    for (std::int64_t h = 0; h < heads_; ++h) {
      if constexpr (kScore == AttentionScore::kAdditive) {
        for (std::int64_t e = 0; e < block.count; ++e) {
          s_.norm[h] += block.coefficients[e][heads_ + h];
        }
      }
      for_units(h, [&]<int kCount>(std::int64_t c) ATOLL_INLINE {
        Registers<kCount * kEach> sum(s_.sums + c);
        Registers<kCount * kEach> more(s_.more_sums + c);
        const Registers<kCount * kEach> source(s_.target + c);
        for (std::int64_t e = 0; e < block.count; ++e) {
          if (c == h * padded_) {
            block.gradients_ahead[e].fetch(h, head_bytes_);
            if constexpr (kScore != AttentionScore::kAdditive) {
              block.targets_ahead[e].fetch(h, head_bytes_);
            }
          }
          const float weight = block.coefficients[e][h];
          const Floats above = block.coefficients[e][heads_ + h] - Floats{};
          const Floats below = above * slope_;
          Registers<kCount * kEach> edge_target;
          if constexpr (kEdges) {
#pragma GCC unroll 4
            for (int k = 0; k < kCount; ++k) {
              Columns::load(block.targets[e] + c + k * Columns::kColumns,
                            edge_target.each + k * kEach);
            }
            add_edge(block.features[e], c, edge_target);
          }
#pragma GCC unroll 4
          for (int k = 0; k < kCount; ++k) {
            Floats gradient[kEach];
            Floats target[kEach];
            Columns::load(block.gradients[e] + c + k * Columns::kColumns, gradient);
            if constexpr (kEdges) {
#pragma GCC unroll 2
              for (int r = 0; r < kEach; ++r) target[r] = edge_target[k * kEach + r];
            } else if constexpr (kScore != AttentionScore::kAdditive) {
              Columns::load(block.targets[e] + c + k * Columns::kColumns, target);
            }
#pragma GCC unroll 2
            for (int r = 0; r < kEach; ++r) {
              const int to = k * kEach + r;
              sum[to] += gradient[r] * weight;
              if constexpr (kScore == AttentionScore::kGatv2) {
                more[to] += source[to] + target[r] > 0.0F ? above : below;
              } else if constexpr (kScore == AttentionScore::kDot) {
                more[to] += target[r] * above;
              }
            }
          }
        }
        sum.store(s_.sums + c);
        if constexpr (kScore != AttentionScore::kAdditive) more.store(s_.more_sums + c);
      });
    }
  }

  const Attending& a_;
  const AttentionScratch& s_;
  const std::int64_t heads_;
  const std::int64_t padded_;
  const std::int64_t width_;
  const std::int64_t head_bytes_;  // of a row in memory
  const float slope_;
  const std::int64_t nnz_;
  const std::int64_t features_;  // of an edge
  const AttentionScore score_;
};

// Inside run_with_vectors<kBytes>.
template <int kBytes, bool kEdges, typename Body>
ATOLL_INLINE inline void with_row_attention(const Attending& a, const AttentionScratch& s,
                                            const Body& body) {
  if constexpr (kBytes == 64) {
    if (a.shape.bytes < kBytes) return with_row_attention<kBytes / 2, kEdges>(a, s, body);
  }
  if (a.shape.staged) return body(RowAttention<kBytes, float, true, kEdges>(a, s));
  if constexpr (!always_staged(kBytes)) {
    if (a.z.dtype == DType::kF32) return body(RowAttention<kBytes, float, false, kEdges>(a, s));
    body(RowAttention<kBytes, Bf16, false, kEdges>(a, s));
  }
}

// Calls body(row) with the RowAttention of a.shape. What reads features of edges is a function of
// its own, too: inlined beside the others, it made them slower.
template <typename Body>
void with_row_attention(Isa isa, const Attending& a, const AttentionScratch& s, const Body& body) {
  const auto call = [&]<bool kEdges>() {
    run_with_vectors(
        isa, [&]<int kBytes>() ATOLL_INLINE { with_row_attention<kBytes, kEdges>(a, s, body); });
  };
  if (a.spec->edges.absent()) {
    call.template operator()<false>();
  } else {
    call.template operator()<true>();
  }
}

void attend_rows(Isa isa, const Attending& a, const AttentionScratch& scratch, RowRange range,
                 MatrixView out, std::int64_t out_first) {
  with_row_attention(isa, a, scratch, [&](const auto& row) ATOLL_INLINE {
    for (std::int64_t i = range.begin; i < range.end; ++i) row.attend(i, out, i - out_first);
  });
}

// Calls body(row, i, partial) for all i of `rows`, where row is the RowAttention of `shape`, and
// adds what the chunks' partials have got to dvector, unless that is absent, and, times `vector`,
// to dedge_weight. start(shared) makes what the rows share.
template <typename Start, typename Body>
void for_attention_rows(CpuBackend& backend, std::span<const std::int64_t> row_ptr, RowRange rows,
                        const HeadShape& shape, const AttentionSpec& spec, MatrixView dvector,
                        MatrixView dedge_weight, const Start& start, const Body& body) {
  const std::int64_t cost = cost_of_rows(row_ptr, rows);
  // How many chunks there are follows from sizes alone.
  const auto bytes = static_cast<std::int64_t>(sizeof(double));
  const std::int64_t sums = (1 + dedge_weight.rows) * shape.width();
  const std::int64_t most =
      dedge_weight.absent()
          ? kMostVectorChunks
          : std::clamp<std::int64_t>(kWeightSumBytes / (bytes * sums), 1, kMostVectorChunks);
  const std::int64_t chunk =
      dvector.absent() ? kCostPerChunk : std::max(kCostPerChunk, (cost + most - 1) / most);
  const std::int64_t chunks = dvector.absent() ? 0 : (cost + chunk - 1) / chunk;
  const std::int64_t shared = round_up(shared_floats(shape, spec), kMostLanes);
  const std::int64_t each = AttentionScratch().take(shape, nullptr);
  const std::int64_t floats = shared + backend.workers().threads() * each;
  float* const memory = backend.scratch<float>(floats + chunks * sums * bytes / 4).data();
  auto* const partials = reinterpret_cast<double*>(memory + floats);
  const Attending a = start(memory);
  backend.for_chunks(cost, chunk, cost * shape.width(), [&](RowRange costs, int slot) {
    const RowRange range = rows_of_chunk(row_ptr, rows, costs);
    double* const partial = dvector.absent() ? nullptr : partials + costs.begin / chunk * sums;
    if (partial != nullptr) std::fill_n(partial, sums, 0.0);
    AttentionScratch arrays;
    arrays.take(shape, memory + shared + slot * each);
    with_row_attention(backend.isa(), a, arrays, [&](const auto& row) ATOLL_INLINE {
      for (std::int64_t i = range.begin; i < range.end; ++i) body(row, i, partial);
    });
  });
  if (dvector.absent()) return;
  // `from`: where sums of this row of a gradient begin; factors: of its columns, null: 1.
  const auto add = [&](float* to, std::int64_t from, const float* factors) {
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      for (std::int64_t c = 0; c < shape.each; ++c) {
        const std::int64_t place = shape.place(h, c);
        const double factor = factors == nullptr ? 1 : static_cast<double>(factors[place]);
        auto sum = static_cast<double>(to[h * shape.each + c]);
        for (std::int64_t k = 0; k < chunks; ++k) sum += factor * partials[k * sums + from + place];
        to[h * shape.each + c] = static_cast<float>(sum);
      }
    }
  };
  add(dvector.row<float>(0), 0, nullptr);
  for (std::int64_t k = 0; k < dedge_weight.rows; ++k) {
    add(dedge_weight.row<float>(k), (1 + k) * shape.width(), a.vector);
  }
}

}  // namespace

void kernel(CpuBackend& backend, Queue&, const kernels::Attend& call) {
  const auto& [op, rows, z, t, attention, y, epilogue] = call;
  const HeadShape shape = head_shape(backend.isa(), z.dtype, attention.heads, z.cols);
  Attending a;
  backend.sum_over_edges(
      op.row_ptr, rows, y, epilogue,
      {shared_floats(shape, attention), AttentionScratch().take(shape, nullptr)},
      [&](float* shared) { a = attending(shape, op, attention, z, t, {}, shared); },
      [&]<typename T, typename Out>(T, RowRange range, Out* out, std::int64_t out_first,
                                    std::int64_t out_stride, float* memory) {
        AttentionScratch scratch;
        scratch.take(shape, memory);
        const DType dtype = std::is_same_v<Out, Bf16> ? DType::kBf16 : DType::kF32;
        attend_rows(backend.isa(), a, scratch, range,
                    {out, range.end - out_first, z.cols, out_stride, dtype}, out_first);
      });
}

void kernel(CpuBackend& backend, Queue&, const kernels::AttendBackwardTargets& call) {
  const auto& [op, rows, z, t, dy, attention, dt, coefficients, dvector, dedge_weight] = call;
  const HeadShape shape = head_shape(backend.isa(), z.dtype, attention.heads, z.cols);
  for_attention_rows(
      backend, op.row_ptr, rows, shape, attention, dvector, dedge_weight,
      [&](float* shared) { return attending(shape, op, attention, z, t, dy, shared); },
      [&](const auto& row, std::int64_t i, double* partial)
          ATOLL_INLINE { row.backward_target(i, dt, coefficients, partial); });
}

void kernel(CpuBackend& backend, Queue&, const kernels::AttendBackwardSources& call) {
  const auto& [op, edges, sources, z, t, dy, coefficients, attention, dz, dvector] = call;
  const HeadShape shape = head_shape(backend.isa(), z.dtype, attention.heads, z.cols);
  for_attention_rows(
      backend, edges.row_ptr, sources, shape, attention, dvector, {},
      [&](float* shared) {
        Attending a = attending(shape, op, attention, z, t, dy, shared);
        a.by_source = &edges;
        a.coefficients = coefficients;
        return a;
      },
      [&](const auto& row, std::int64_t j, double* partial)
          ATOLL_INLINE { row.backward_source(j, dz, j - sources.begin, partial); });
}

}  // namespace atl
