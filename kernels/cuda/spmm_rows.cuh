// The inner part of SpMM: a team of lanes sums the neighbours of a row, each lane in its own
// columns.
//
// A team's lanes load the indices of as many neighbours together and pass them around; then all
// lanes load the same neighbour's row, in accesses of 16 bytes where alignment allows, kAhead
// neighbours at a time so that enough loads are under way. The row itself, where it counts, is one
// more neighbour.
#pragma once

#include "kernels/cuda/elements.cuh"
#include "kernels/operator_pointers.hpp"

namespace atl::cuda {

inline constexpr int kSpmmThreads = 32;  // of a block

template <typename T>
struct Arguments : OperatorPointers {
  const T* x;
  unsigned x_stride;  // bytes: below 2^32, so that a row's address is one instruction
  Rows<T> y;
  std::int64_t cols;
  std::int64_t first_row;  // of the range: dropout's row ids count from it
  bool accumulate;
  EpilogueArgs epilogue;
};

// How a team walks a row: kUnits units of kUnit elements per lane, kLanes units apart. Neighbours
// have weights, or all count once.
template <typename T, int kUnit, int kLanes, int kUnits, bool kWeights>
struct Shape {
  using Element = T;
  using Unit = Packed<float, kUnit>;
  static constexpr int kElements = kUnit;
  static constexpr int kTeam = kLanes;
  static constexpr int kPerLane = kUnits;
  static constexpr bool kWeighted = kWeights;
  static constexpr int kTeams = kSpmmThreads / kLanes;
  static constexpr int kTile = kUnit * kLanes * kUnits;  // columns that a team covers
  // Neighbours whose rows are loaded before the first is added: 32 registers of them.
  static constexpr int kWanted = kUnits == 1 ? 8 : 4;
  static constexpr int kAhead = kWanted < kLanes ? kWanted : kLanes;
  // Blocks that shall fit a multiprocessor: 16 rows of 512 bytes under way in each hide the latency
  // of random reads; the rest of the registers is better spent on rows ahead.
  static constexpr int kBlocks = kUnit * kUnits > 8 ? 16 : 20;
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

// A lane's columns of x. Units beyond the last column read the first one, so that loops need no
// predicates; nothing comes of them.
template <typename S>
struct Source {
  using T = typename S::Element;
  const char* base[S::kPerLane];
  unsigned stride;

  __device__ Source(const Arguments<T>& a, const Lane<S>& at) : stride(a.x_stride) {
#pragma unroll
    for (int v = 0; v < S::kPerLane; ++v) {
      base[v] = reinterpret_cast<const char*>(a.x + (at.col(v) < a.cols ? at.col(v) : 0));
    }
  }
  __device__ Packed<T, S::kElements> row(int unit, unsigned index) const {
    const std::uint64_t offset = static_cast<std::uint64_t>(index) * stride;
    return load<S::kElements>(reinterpret_cast<const T*>(base[unit] + offset));
  }
};

// The terms of a row's sum: itself first, unless its weight is 0 (it is not read then, and may hold
// anything), and the edges [begin, end).
struct Neighbours {
  std::int64_t row = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool self = false;
};

template <typename S>
__device__ Neighbours neighbours_of(const Arguments<typename S::Element>& a, std::int64_t row) {
  const bool self = S::kWeighted && a.self_weight != nullptr && a.self_weight[row] != 0;
  return {row, a.row_ptr[row], a.row_ptr[row + 1], self};
}

struct Neighbour {
  std::int32_t row = 0;
  float weight = 1;
};

// The k-th of them, or any where there are fewer; without the column factor, whose load would wait
// for the index.
template <typename S>
__device__ Neighbour neighbour(const Arguments<typename S::Element>& a, const Neighbours& of,
                               std::int64_t k) {
  Neighbour found;
  const std::int64_t edge = of.begin + k - (of.self ? 1 : 0);
  if (edge >= of.end) return found;
  if (edge < of.begin) {
    found.row = static_cast<std::int32_t>(of.row);
    if constexpr (S::kWeighted) found.weight = a.self_weight[of.row];
  } else {
    found.row = a.col_idx[edge];
    if constexpr (S::kWeighted) {
      if (a.values != nullptr) found.weight = a.values[edge];
    }
  }
  return found;
}

template <typename S>
__device__ float column_factor(const Arguments<typename S::Element>& a, const Neighbour& of) {
  if constexpr (S::kWeighted) {
    if (a.col_scale != nullptr) return a.col_scale[of.row];
  }
  return 1;
}

template <typename Unit, int kUnits>
__device__ void clear_units(Unit (&sums)[kUnits]) {
#pragma unroll
  for (int v = 0; v < kUnits; ++v) {
#pragma unroll
    for (float& value : sums[v].values) value = 0;
  }
}

// Adds kAhead of the neighbours that the team's lanes hold, or `rest` of them, from the k-th on.
// For one that is not there the k-th is read again, so that no load waits behind a branch, and not
// added: 0 * infinity is NaN.
template <typename S, bool kFull>
__device__ void add_group(const Source<S>& x, const Lane<S>& at, Neighbour& held, float& factor,
                          int k, int rest, typename S::Unit (&sums)[S::kPerLane]) {
  Packed<typename S::Element, S::kElements> rows[S::kAhead][S::kPerLane];
  float weights[S::kAhead];
#pragma unroll
  for (int u = 0; u < S::kAhead; ++u) {
    const int source = kFull || u < rest ? k + u : k;
    const std::int32_t row = __shfl_sync(at.mask, held.row, source, S::kTeam);
#pragma unroll
    for (int v = 0; v < S::kPerLane; ++v) rows[u][v] = x.row(v, static_cast<unsigned>(row));
  }
  // After the rows: the first weights of a round still wait for their column factor. It is
  // multiplied in once; written as a product of two constants, it would be done before the loop,
  // and waited for.
  if constexpr (S::kWeighted) {
    held.weight *= factor;
    factor = 1;
#pragma unroll
    for (int u = 0; u < S::kAhead; ++u) {
      const int source = kFull || u < rest ? k + u : k;
      weights[u] = __shfl_sync(at.mask, held.weight, source, S::kTeam);
    }
  }
  // Summed among themselves first: a long row's sum takes a fraction of the roundings.
#pragma unroll
  for (int v = 0; v < S::kPerLane; ++v) {
    typename S::Unit part = {};
#pragma unroll
    for (int u = 0; u < S::kAhead; ++u) {
      if (!kFull && u >= rest) continue;
      const auto values = widen(rows[u][v]);
#pragma unroll
      for (int j = 0; j < S::kElements; ++j) {
        const float value = values.values[j];
        if constexpr (S::kWeighted) {
          part.values[j] = u == 0 ? weights[u] * value : fmaf(weights[u], value, part.values[j]);
        } else {
          part.values[j] = u == 0 ? value : part.values[j] + value;
        }
      }
    }
#pragma unroll
    for (int j = 0; j < S::kElements; ++j) sums[v].values[j] += part.values[j];
  }
}

// sums += kTeam neighbours from the first-th on, then those `step` further. Indices of the next
// round and column factors of this one are asked for before it waits; neither holds up its rows.
template <typename S>
__device__ void add_neighbours(const Arguments<typename S::Element>& a, const Source<S>& x,
                               const Lane<S>& at, const Neighbours& of, int first, int step,
                               typename S::Unit (&sums)[S::kPerLane]) {
  const std::int64_t count = of.end - of.begin + (of.self ? 1 : 0);
  Neighbour next = neighbour<S>(a, of, first + at.lane);
#pragma unroll 1
  for (std::int64_t begin = first; begin < count; begin += step) {
    Neighbour held = next;
    float factor = column_factor<S>(a, held);
    next = neighbour<S>(a, of, begin + step + at.lane);
    const int here = static_cast<int>(count - begin < S::kTeam ? count - begin : S::kTeam);
    int k = 0;
#pragma unroll 1
    for (; k + S::kAhead <= here; k += S::kAhead) {
      add_group<S, true>(x, at, held, factor, k, S::kAhead, sums);
    }
    if (k < here) add_group<S, false>(x, at, held, factor, k, here - k, sums);
  }
}

// Adds the sums of all teams of the block in the order of teams; every team gets the total.
template <typename S>
__device__ void add_teams(const Lane<S>& at, typename S::Unit (&sums)[S::kPerLane]) {
  if constexpr (S::kTeams > 1) {
    __syncthreads();  // teams come here one after another
#pragma unroll
    for (int v = 0; v < S::kPerLane; ++v) {
#pragma unroll
      for (float& value : sums[v].values) {
        float total = 0;
#pragma unroll
        for (int team = 0; team < S::kTeams; ++team) {
          total += __shfl_sync(kFullWarp, value, team * S::kTeam + at.lane);
        }
        value = total;
      }
    }
  }
}

}  // namespace atl::cuda
