// Layer norm. Rows of up to kTeamCols columns are held in the registers of a team of lanes, so that
// every element is read once; wider rows are read again, mostly from caches.
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/launch.hpp"
#include "kernels/cuda/layer_norm.cuh"
#include "kernels/cuda/walk.hpp"
#include "kernels/operations/normalization.hpp"

namespace atl::cuda {

namespace {

constexpr int kLaneCols = 16;  // columns that a lane can hold
constexpr std::int64_t kTeamCols = 32 * kLaneCols;

template <typename T, int kUnit>
__global__ void __launch_bounds__(kBlockThreads, 2)
    layer_norm_kernel(int lanes, std::int64_t rows, std::int64_t cols, Rows<const T> x,
                      NormParameters parameters, double epsilon, Rows<T> y) {
  constexpr int kUnits = kLaneCols / kUnit;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const int team = static_cast<int>(threadIdx.x) / lanes;
  const int teams = kBlockThreads / lanes;
  const double per_col = 1 / static_cast<double>(cols);
  for (std::int64_t base = std::int64_t{blockIdx.x} * teams; base < rows;
       base += std::int64_t{gridDim.x} * teams) {
    const std::int64_t i = base + team;
    const bool own = i < rows;  // other teams go along with zeros
    Packed<T, kUnit> held[kUnits];
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      const int col = (u * lanes + lane) * kUnit;
      if (col >= cols) break;
      held[u] = own ? load<kUnit>(x.at(i, col)) : Packed<T, kUnit>{};
    }
    const RowStatistics row = held_statistics(held, lane, lanes, cols, per_col, epsilon);
    if (!own) continue;
    const SplitDouble mean = split_double(row.mean);
    const auto inv_std = static_cast<float>(row.inv_std);
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      const int col = (u * lanes + lane) * kUnit;
      if (col >= cols) break;
      const auto gamma = load_parameters<kUnit>(parameters.gamma + col, parameters.aligned);
      const auto beta = load_parameters<kUnit>(parameters.beta + col, parameters.aligned);
      Packed<float, kUnit> values = widen(held[u]);
#pragma unroll
      for (int k = 0; k < kUnit; ++k) {
        const float xhat = centred(values.values[k], mean) * inv_std;
        values.values[k] = fmaf(xhat, gamma.values[k], beta.values[k]);
      }
      store(y.at(i, col), narrow<T>(values));
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    wide_layer_norm_kernel(std::int64_t rows, std::int64_t cols, Rows<const T> x,
                           NormParameters parameters, double epsilon, Rows<T> y) {
  __shared__ double scratch[32];
  for (std::int64_t i = blockIdx.x; i < rows; i += gridDim.x) {
    const T* from = x.at(i, 0);
    T* to = y.at(i, 0);
    const RowStatistics row = block_statistics<T>(cols, from, nullptr, nullptr, epsilon, scratch);
    const SplitDouble mean = split_double(row.mean);
    const auto inv_std = static_cast<float>(row.inv_std);
    for (std::int64_t j = threadIdx.x; j < cols; j += kBlockThreads) {
      const float xhat = centred(to_f32(from[j]), mean) * inv_std;
      const Packed<float, 1> value{{fmaf(xhat, parameters.gamma[j], parameters.beta[j])}};
      store(to + j, narrow<T>(value));
    }
  }
}

}  // namespace

void kernel(CudaBackend& backend, Queue& queue, const kernels::LayerNorm& call) {
  const auto& [x, gamma, beta, epsilon, y] = call;
  const Launch& where = launch_of(backend, queue);
  const NormParameters parameters{static_cast<const float*>(gamma.data),
                                  static_cast<const float*>(beta.data),
                                  fits_vectors(4, {gamma, beta})};
  const std::int64_t most = where.most_blocks();
  with_element(x.dtype, [&]<typename T>(T) {
    if (x.cols > kTeamCols) {
      launch(where, std::min(most, x.rows), kBlockThreads, wide_layer_norm_kernel<T>, x.rows,
             x.cols, rows_of<T>(x), parameters, epsilon, rows_of<T>(y));
      return;
    }
    with_unit<T>({x, y}, [&](auto unit) {
      const int lanes = team_lanes(x.cols, unit, kLaneCols / unit);
      const std::int64_t blocks = std::min(most, ceil_divide(x.rows, kBlockThreads / lanes));
      launch(where, blocks, kBlockThreads, layer_norm_kernel<T, unit>, lanes, x.rows, x.cols,
             rows_of<T>(x), parameters, epsilon, rows_of<T>(y));
    });
  });
}

}  // namespace atl::cuda
