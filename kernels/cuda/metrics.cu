// Counts of right and wrong predictions. Integers, so atomic additions give the same in any order.
#include <cuda_runtime.h>
#include <math.h>

#include <cstdint>
#include <limits>

#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/launch.hpp"
#include "kernels/cuda/walk.cuh"
#include "kernels/operations/metrics.hpp"

namespace atl::cuda {

namespace {

constexpr int kSplits = 3;

// Adds what the threads of a block counted. All threads must call.
template <int kCount>
__device__ void add_counts(const std::uint32_t (&mine)[kCount], std::int64_t* counts) {
  __shared__ unsigned long long scratch[32];
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    const auto sum = block_sum(static_cast<unsigned long long>(mine[k]), scratch);
    if (threadIdx.x == 0 && sum != 0) {
      atomicAdd(reinterpret_cast<unsigned long long*>(counts + k), sum);
    }
  }
}

// A number with its column; the larger number wins, then the first column.
struct Best {
  float value = -INFINITY;
  std::int64_t col = std::numeric_limits<std::int64_t>::max();

  __device__ void offer(float other, std::int64_t other_col) {
    if (other > value || (other == value && other_col < col)) {
      value = other;
      col = other_col;
    }
  }
};

// A team of lanes per row.
template <typename T, int kUnit>
__global__ void __launch_bounds__(kBlockThreads)
    count_correct_kernel(int lanes, std::int64_t rows, std::int64_t cols, Rows<const T> logits,
                         const std::int32_t* labels, const std::uint8_t* split,
                         std::int64_t* counts) {
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const int team = static_cast<int>(threadIdx.x) / lanes;
  const int teams = kBlockThreads / lanes;
  std::uint32_t mine[2 * kSplits] = {};
  for (std::int64_t base = std::int64_t{blockIdx.x} * teams; base < rows;
       base += std::int64_t{gridDim.x} * teams) {
    const std::int64_t i = base + team;
    const int part = i < rows && labels[i] >= 0 ? split[i] : kSplits;
    Best best;
    if (part < kSplits) {
      for (std::int64_t col = std::int64_t{lane} * kUnit; col < cols;
           col += std::int64_t{lanes} * kUnit) {
        const Packed<float, kUnit> values = widen(load<kUnit>(logits.at(i, col)));
#pragma unroll
        for (int k = 0; k < kUnit; ++k) best.offer(values.values[k], col + k);  // never a NaN
      }
    }
    for (int offset = lanes / 2; offset > 0; offset /= 2) {
      const float value = __shfl_xor_sync(kFullWarp, best.value, offset);
      best.offer(value, __shfl_xor_sync(kFullWarp, best.col, offset));
    }
    if (lane != 0 || part >= kSplits) continue;
    const float first = to_f32(*logits.at(i, 0));
    const bool correct = first == first && best.col == labels[i];
#pragma unroll
    for (int s = 0; s < kSplits; ++s) {
      mine[2 * s] += s == part && correct ? 1 : 0;
      mine[2 * s + 1] += s == part ? 1 : 0;
    }
  }
  add_counts(mine, counts);
}

template <typename T, int kUnit>
__global__ void __launch_bounds__(kBlockThreads)
    count_multi_label_kernel(Walk walk, std::int64_t down, std::int64_t rows, std::int64_t cols,
                             Rows<const T> logits, const std::uint8_t* targets,
                             const std::uint8_t* split, std::int64_t* counts) {
  struct Loaded {
    Packed<T, kUnit> logits;
    std::uint8_t targets[kUnit];
    int part;
  };
  const Place place = place_of(walk, blockIdx.x, threadIdx.x);
  std::uint32_t mine[3 * kSplits] = {};
  for_rows<2>(
      walk, place, down, rows,
      [&](std::int64_t i) {
        Loaded loaded;
        loaded.part = split[i];
        loaded.logits = load<kUnit>(logits.at(i, place.col));
#pragma unroll
        for (int k = 0; k < kUnit; ++k) loaded.targets[k] = targets[i * cols + place.col + k];
        return loaded;
      },
      [&](std::int64_t, const Loaded& loaded) {
        const Packed<float, kUnit> values = widen(loaded.logits);
        std::uint32_t found[3] = {};
#pragma unroll
        for (int k = 0; k < kUnit; ++k) {
          const bool predicted = values.values[k] > 0;
          found[0] += predicted && loaded.targets[k] == 1 ? 1 : 0;
          found[1] += predicted && loaded.targets[k] == 0 ? 1 : 0;
          found[2] += !predicted && loaded.targets[k] == 1 ? 1 : 0;
        }
#pragma unroll
        for (int s = 0; s < kSplits; ++s) {
#pragma unroll
          for (int k = 0; k < 3; ++k) mine[3 * s + k] += s == loaded.part ? found[k] : 0;
        }
      });
  add_counts(mine, counts);
}

void clear(const Launch& where, std::span<std::int64_t> counts) {
  check(cudaMemsetAsync(counts.data(), 0, counts.size_bytes(), where.stream), "cudaMemsetAsync");
}

}  // namespace

void kernel(CudaBackend& backend, Queue& queue, const kernels::CountCorrect& call) {
  const auto& [logits, labels, split, counts] = call;
  const Launch& where = launch_of(backend, queue);
  clear(where, counts);
  with_element(logits.dtype, [&]<typename T>(T) {
    with_unit<T>({logits}, [&](auto unit) {
      const int lanes = team_lanes(logits.cols, unit, 4);
      const std::int64_t blocks =
          std::min(where.most_blocks(), ceil_divide(logits.rows, kBlockThreads / lanes));
      launch(where, blocks, kBlockThreads, count_correct_kernel<T, unit>, lanes, logits.rows,
             logits.cols, rows_of<T>(logits), labels.data(), split.data(), counts.data());
    });
  });
}

void kernel(CudaBackend& backend, Queue& queue, const kernels::CountMultiLabel& call) {
  const auto& [logits, targets, split, counts] = call;
  const Launch& where = launch_of(backend, queue);
  clear(where, counts);
  with_element(logits.dtype, [&]<typename T>(T) {
    with_unit<T>({logits}, [&](auto unit) {
      launch(where, make_grid(where, logits.rows, logits.cols, unit, 2),
             count_multi_label_kernel<T, unit>, logits.rows, logits.cols, rows_of<T>(logits),
             targets.data(), split.data(), counts.data());
    });
  });
}

}  // namespace atl::cuda
