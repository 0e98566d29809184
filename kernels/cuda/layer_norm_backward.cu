// The gradient of layer norm: inv_std * (g - mean(g) - xhat * mean(g * xhat)) with g = dy * gamma,
// rounded before it is compared with its mean (__fmul_rn: else nvcc makes an fma of both, and what
// cancels leaves the rounding). Rows of up to kBackwardTeamCols columns are held in the registers
// of a team of lanes together with the team's sums for the parameters' gradients, so that every
// element is read once.
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/column_reduction.cuh"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/launch.hpp"
#include "kernels/cuda/layer_norm.cuh"
#include "kernels/cuda/walk.cuh"
#include "kernels/operations/normalization.hpp"

namespace atl::cuda {

namespace {

// Columns that a lane can hold: few where they suffice, so that more warps fit a multiprocessor.
constexpr int kFewLaneCols = 8;
constexpr int kBackwardLaneCols = 16;
constexpr std::int64_t kBackwardTeamCols = 32 * kBackwardLaneCols;
constexpr int kLeastLanes = 4;     // few teams, because they add up their sums in turn
constexpr int kTeamThreads = 128;  // two sums per column in registers leave room for no more

// Behind the partial sums in the workspace: the statistics of the rows of one pass.
constexpr std::int64_t kStatisticsOffset = kPartialsBytes;
static_assert(kStatisticsOffset < kWorkspaceBytes);

// --- rows in registers ----------------------------------------------------------------

// dx of a block's rows, and the block's sums of dy * xhat and dy: partials [blocks, 2, cols].
template <typename T, int kUnit, int kHeld>
__global__ void __launch_bounds__(kTeamThreads)
    layer_norm_backward_kernel(int lanes, Chunks chunks, std::int64_t rows, std::int64_t cols,
                               Rows<const T> dy, Rows<const T> x, NormParameters parameters,
                               double epsilon, Rows<T> dx, double* partials) {
  constexpr int kUnits = kHeld / kUnit;
  constexpr int kMostCols = 32 * kHeld;
  __shared__ double shared[2 * kMostCols];
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const int team = static_cast<int>(threadIdx.x) / lanes;
  const int teams = kTeamThreads / lanes;
  const double per_col = 1 / static_cast<double>(cols);
  const std::int64_t end = min((blockIdx.x + 1) * chunks.rows_per_chunk, rows);
  double dgamma[kUnits][kUnit] = {};
  double dbeta[kUnits][kUnit] = {};
  for (std::int64_t base = blockIdx.x * chunks.rows_per_chunk; base < end; base += teams) {
    const std::int64_t i = base + team;
    const bool own = i < end;  // other teams go along with zeros
    Packed<T, kUnit> values[kUnits];
    Packed<T, kUnit> gradients[kUnits];
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      const int col = (u * lanes + lane) * kUnit;
      if (col >= cols) break;
      values[u] = own ? load<kUnit>(x.at(i, col)) : Packed<T, kUnit>{};
      gradients[u] = own ? load<kUnit>(dy.at(i, col)) : Packed<T, kUnit>{};
    }
    const RowStatistics row = held_statistics(values, lane, lanes, cols, per_col, epsilon);
    const SplitDouble mean = split_double(row.mean);
    const auto inv_std = static_cast<float>(row.inv_std);
    float sum_g = 0;
    float sum_g_xhat = 0;
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      const int col = (u * lanes + lane) * kUnit;
      if (col >= cols) break;
      const auto gamma = load_parameters<kUnit>(parameters.gamma + col, parameters.aligned);
      const Packed<float, kUnit> value = widen(values[u]);
      const Packed<float, kUnit> gradient = widen(gradients[u]);
#pragma unroll
      for (int k = 0; k < kUnit; ++k) {
        const float xhat = centred(value.values[k], mean) * inv_std;
        const float g = gradient.values[k] * gamma.values[k];
        sum_g += g;
        sum_g_xhat = fmaf(g, xhat, sum_g_xhat);
        // These sums run over many rows, so their terms are double too.
        const auto wide = static_cast<double>(gradient.values[k]);
        dgamma[u][k] += wide * row.inv_std * (static_cast<double>(value.values[k]) - row.mean);
        dbeta[u][k] += wide;
      }
    }
    const auto mean_g = static_cast<float>(team_sum(static_cast<double>(sum_g), lanes) * per_col);
    const auto mean_g_xhat =
        static_cast<float>(team_sum(static_cast<double>(sum_g_xhat), lanes) * per_col);
    if (!own) continue;
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      const int col = (u * lanes + lane) * kUnit;
      if (col >= cols) break;
      const auto gamma = load_parameters<kUnit>(parameters.gamma + col, parameters.aligned);
      const Packed<float, kUnit> value = widen(values[u]);
      Packed<float, kUnit> gradient = widen(gradients[u]);
#pragma unroll
      for (int k = 0; k < kUnit; ++k) {
        const float xhat = centred(value.values[k], mean) * inv_std;
        const float g = __fmul_rn(gradient.values[k], gamma.values[k]);
        gradient.values[k] = inv_std * (g - mean_g - xhat * mean_g_xhat);
      }
      store(dx.at(i, col), narrow<T>(gradient));
    }
  }
  // The teams' sums one after the other, then the block's to its place.
  for (int turn = 0; turn < teams; ++turn) {
    if (team == turn) {
#pragma unroll
      for (int u = 0; u < kUnits; ++u) {
#pragma unroll
        for (int k = 0; k < kUnit; ++k) {
          const int col = (u * lanes + lane) * kUnit + k;
          if (col >= cols) continue;
          shared[col] = (turn == 0 ? 0.0 : shared[col]) + dgamma[u][k];
          shared[kMostCols + col] = (turn == 0 ? 0.0 : shared[kMostCols + col]) + dbeta[u][k];
        }
      }
    }
    __syncthreads();
  }
  double* to = partials + std::int64_t{blockIdx.x} * 2 * cols;
  for (int col = static_cast<int>(threadIdx.x); col < cols; col += kTeamThreads) {
    to[col] = shared[col];
    to[cols + col] = shared[kMostCols + col];
  }
}

struct AddParameterGradients {
  float* dgamma;
  float* dbeta;
  __device__ void operator()(std::int64_t col, const double (&sums)[2]) const {
    dgamma[col] = static_cast<float>(static_cast<double>(dgamma[col]) + sums[0]);
    dbeta[col] = static_cast<float>(static_cast<double>(dbeta[col]) + sums[1]);
  }
};

// --- rows of any length ----------------------------------------------------------------

template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    row_statistics_kernel(std::int64_t cols, Rows<const T> dy, Rows<const T> x, const float* gamma,
                          double epsilon, RowStatistics* statistics) {
  __shared__ double scratch[32];
  const std::int64_t i = blockIdx.x;
  const RowStatistics row =
      block_statistics<T>(cols, x.at(i, 0), dy.at(i, 0), gamma, epsilon, scratch);
  if (threadIdx.x == 0) statistics[i] = row;
}

template <typename T, int kUnit>
struct NormalisedRow {
  Packed<T, kUnit> gradient;
  Packed<T, kUnit> value;
  RowStatistics row;
};

// dy * xhat and dy.
template <typename T, int kElements>
struct ParameterGradients : NoColumns {
  static constexpr int kSums = 2;
  static constexpr int kUnit = kElements;
  static constexpr int kBatch = 2;
  Rows<const T> dy;
  Rows<const T> x;
  const RowStatistics* statistics;

  __device__ NormalisedRow<T, kUnit> load(std::int64_t i, std::int64_t col) const {
    return {cuda::load<kUnit>(dy.at(i, col)), cuda::load<kUnit>(x.at(i, col)), statistics[i]};
  }
  __device__ void add(const Columns&, std::int64_t, std::int64_t,
                      const NormalisedRow<T, kUnit>& loaded, double (&sums)[2][kUnit]) const {
    const Packed<float, kUnit> gradient = widen(loaded.gradient);
    const Packed<float, kUnit> value = widen(loaded.value);
#pragma unroll
    for (int k = 0; k < kUnit; ++k) {
      const double xhat =
          (static_cast<double>(value.values[k]) - loaded.row.mean) * loaded.row.inv_std;
      sums[0][k] += static_cast<double>(gradient.values[k]) * xhat;
      sums[1][k] += static_cast<double>(gradient.values[k]);
    }
  }
};

template <typename T, int kUnit>
__global__ void __launch_bounds__(kBlockThreads, 4)
    wide_backward_kernel(Walk walk, std::int64_t down, std::int64_t rows, Rows<const T> dy,
                         Rows<const T> x, const float* gamma, const RowStatistics* statistics,
                         Rows<T> dx) {
  const Place place = place_of(walk, blockIdx.x, threadIdx.x);
  if (!place.inside) return;
  const Packed<float, kUnit> factor = load_parameters<kUnit>(gamma + place.col, false);
  for_rows<2>(
      walk, place, down, rows,
      [&](std::int64_t i) {
        return NormalisedRow<T, kUnit>{load<kUnit>(dy.at(i, place.col)),
                                       load<kUnit>(x.at(i, place.col)), statistics[i]};
      },
      [&](std::int64_t i, const NormalisedRow<T, kUnit>& loaded) {
        const SplitDouble mean = split_double(loaded.row.mean);
        const auto inv_std = static_cast<float>(loaded.row.inv_std);
        const auto mean_g = static_cast<float>(loaded.row.mean_g);
        const auto mean_g_xhat = static_cast<float>(loaded.row.mean_g_xhat);
        Packed<float, kUnit> gradient = widen(loaded.gradient);
        const Packed<float, kUnit> value = widen(loaded.value);
#pragma unroll
        for (int k = 0; k < kUnit; ++k) {
          const float xhat = centred(value.values[k], mean) * inv_std;
          const float g = __fmul_rn(gradient.values[k], factor.values[k]);
          gradient.values[k] = inv_std * (g - mean_g - xhat * mean_g_xhat);
        }
        store(dx.at(i, place.col), narrow<T>(gradient));
      });
}

// Rows of a pass at a time: dx may be dy, so the sums of a row come before its dx.
template <typename T, int kUnit>
void wide_backward(const Launch& where, ConstMatrixView dy, ConstMatrixView x,
                   const NormParameters& parameters, double epsilon, MatrixView dx,
                   const AddParameterGradients& gradients) {
  const std::span<std::byte> behind = where.workspace.subspan(kStatisticsOffset);
  auto* statistics = reinterpret_cast<RowStatistics*>(behind.data());
  const auto most_rows = static_cast<std::int64_t>(behind.size() / sizeof(RowStatistics));
  for (std::int64_t first = 0; first < x.rows; first += most_rows) {
    const RowRange range{first, std::min(first + most_rows, x.rows)};
    const Rows<const T> gradient = rows_of<T>(dy.rows_in(range));
    const Rows<const T> value = rows_of<T>(x.rows_in(range));
    launch(where, range.size(), kBlockThreads, row_statistics_kernel<T>, x.cols, gradient, value,
           parameters.gamma, epsilon, statistics);
    for_column_passes(x.cols, [&](std::int64_t col, std::int64_t cols) {
      const ParameterGradients<T, kUnit> op{
          {}, {gradient.data + col, gradient.stride}, {value.data + col, value.stride}, statistics};
      sum_columns(where, range.size(), cols, op,
                  AddParameterGradients{gradients.dgamma + col, gradients.dbeta + col});
    });
    launch(where, make_grid(where, range.size(), x.cols, kUnit, 2), wide_backward_kernel<T, kUnit>,
           range.size(), gradient, value, parameters.gamma, statistics,
           rows_of<T>(dx.rows_in(range)));
  }
}

template <typename T, int kUnit, int kHeld>
void team_backward(const Launch& where, ConstMatrixView dy, ConstMatrixView x,
                   const NormParameters& parameters, double epsilon, MatrixView dx,
                   const AddParameterGradients& gradients) {
  auto* partials = reinterpret_cast<double*>(where.workspace.data());
  const int lanes = std::max(team_lanes(x.cols, kUnit, kHeld / kUnit), kLeastLanes);
  static_assert(kReductionBlocks * 2 * kBackwardTeamCols * std::int64_t{sizeof(double)} <=
                kWorkspaceBytes);
  const Chunks chunks = make_chunks(x.rows, kTeamThreads / lanes * 4, kReductionBlocks);
  launch(where, chunks.chunks, kTeamThreads, layer_norm_backward_kernel<T, kUnit, kHeld>, lanes,
         chunks, x.rows, x.cols, rows_of<T>(dy), rows_of<T>(x), parameters, epsilon, rows_of<T>(dx),
         partials);
  launch_finish<2>(where, chunks.chunks, x.cols, partials, gradients);
}

}  // namespace

void kernel(CudaBackend& backend, Queue& queue, const kernels::LayerNormBackward& call) {
  const auto& [dy, x, gamma, epsilon, dx, dgamma, dbeta] = call;
  const Launch& where = launch_of(backend, queue);
  const NormParameters parameters{static_cast<const float*>(gamma.data), nullptr,
                                  fits_vectors(4, gamma)};
  const AddParameterGradients gradients{static_cast<float*>(dgamma.data),
                                        static_cast<float*>(dbeta.data)};
  with_element(x.dtype, [&]<typename T>(T) {
    with_unit<T>({dy, x, dx}, [&](auto unit) {
      const auto run = x.cols <= 32 * kFewLaneCols   ? team_backward<T, unit, kFewLaneCols>
                       : x.cols <= kBackwardTeamCols ? team_backward<T, unit, kBackwardLaneCols>
                                                     : wide_backward<T, unit>;
      run(where, dy, x, parameters, epsilon, dx, gradients);
    });
  });
}

}  // namespace atl::cuda
