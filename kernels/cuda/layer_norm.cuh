// The common parts of layer norm forward and backward: parameters, and the statistics of a row by a
// team of lanes that holds it or by a block that reads it.
#pragma once

#include <cuda_runtime.h>
#include <math.h>

#include <cstdint>

#include "kernels/cuda/elements.cuh"

namespace atl::cuda {

struct RowStatistics {
  double mean;
  double inv_std;
  double mean_g;       // of g = dy * gamma, for the gradient
  double mean_g_xhat;  // of g * xhat
};

struct NormParameters {
  const float* gamma;
  const float* beta;
  bool aligned;  // for accesses of 16 bytes
};

// Parameters of neighbouring columns; `aligned` for accesses of 16 bytes.
template <int kCount>
__device__ inline Packed<float, kCount> load_parameters(const float* from, bool aligned) {
  Packed<float, kCount> values;
  if constexpr (kCount % 4 == 0) {
    if (aligned) {
#pragma unroll
      for (int k = 0; k < kCount; k += 4) {
        const Packed<float, 4> four = load<4>(from + k);
#pragma unroll
        for (int j = 0; j < 4; ++j) values.values[k + j] = four.values[j];
      }
      return values;
    }
  }
#pragma unroll
  for (int k = 0; k < kCount; ++k) values.values[k] = from[k];
  return values;
}

__device__ inline float centred(float x, const SplitDouble& mean) {
  return x - mean.high - mean.low;
}

// Mean and 1 / sqrt(variance + epsilon) of a row that a team holds: lane l of it the units l,
// l + lanes, ... per_col: 1 / cols. All 32 lanes of the warp must call.
template <typename T, int kUnit, int kUnits>
__device__ inline RowStatistics held_statistics(const Packed<T, kUnit> (&row)[kUnits], int lane,
                                                int lanes, std::int64_t cols, double per_col,
                                                double epsilon) {
  double sum = 0;
#pragma unroll
  for (int u = 0; u < kUnits; ++u) {
    if ((u * lanes + lane) * kUnit >= cols) break;
    const Packed<float, kUnit> values = widen(row[u]);
#pragma unroll
    for (int k = 0; k < kUnit; ++k) sum += static_cast<double>(values.values[k]);
  }
  RowStatistics found{};
  found.mean = team_sum(sum, lanes) * per_col;
  double squares = 0;
#pragma unroll
  for (int u = 0; u < kUnits; ++u) {
    if ((u * lanes + lane) * kUnit >= cols) break;
    const Packed<float, kUnit> values = widen(row[u]);
#pragma unroll
    for (int k = 0; k < kUnit; ++k) {
      const double difference = static_cast<double>(values.values[k]) - found.mean;
      squares += difference * difference;
    }
  }
  const double variance = team_sum(squares, lanes) * per_col;
  found.inv_std = 1 / sqrt(variance + epsilon);
  return found;
}

// Statistics of a row by a whole block; the sums of the gradient only with dy.
template <typename T>
__device__ inline RowStatistics block_statistics(std::int64_t cols, const T* x, const T* dy,
                                                 const float* gamma, double epsilon,
                                                 double* scratch) {
  const auto n = static_cast<double>(cols);
  double sum = 0;
  for (std::int64_t j = threadIdx.x; j < cols; j += blockDim.x) {
    sum += static_cast<double>(to_f32(x[j]));
  }
  RowStatistics found{};
  found.mean = block_sum(sum, scratch) / n;
  double squares = 0;
  for (std::int64_t j = threadIdx.x; j < cols; j += blockDim.x) {
    const double difference = static_cast<double>(to_f32(x[j])) - found.mean;
    squares += difference * difference;
  }
  found.inv_std = 1 / sqrt(block_sum(squares, scratch) / n + epsilon);
  if (dy == nullptr) return found;
  double sum_g = 0;
  double sum_g_centred = 0;
  for (std::int64_t j = threadIdx.x; j < cols; j += blockDim.x) {
    const double g = static_cast<double>(to_f32(dy[j])) * static_cast<double>(gamma[j]);
    sum_g += g;
    sum_g_centred += g * (static_cast<double>(to_f32(x[j])) - found.mean);
  }
  found.mean_g = block_sum(sum_g, scratch) / n;
  found.mean_g_xhat = block_sum(sum_g_centred, scratch) * found.inv_std / n;
  return found;
}

}  // namespace atl::cuda
