#include <cuda_bf16.h>

#include "tests/cuda_emulation/sample_kernels.hpp"

namespace atl::samples {
namespace {

constexpr unsigned kFull = 0xffffffffu;

template <typename... Parameters, typename... Arguments>
cudaError_t launch(cudaStream_t stream, dim3 grid, dim3 block, void (*kernel)(Parameters...),
                   Arguments... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

__global__ void __launch_bounds__(64)
    add_one_kernel(int* __restrict__ out, const int* __restrict__ in, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= count) return;
  out[i] = __ldg(in + i) + 1;
}

template <bool kBarrier>
__global__ void block_sums_kernel(float* out, const float* in) {
  __shared__ float values[256];
  const unsigned thread = threadIdx.x;
  values[thread] = in[blockIdx.x * 256 + thread];
  for (unsigned step = 128; step > 0; step /= 2) {
    if (kBarrier) __syncthreads();
    if (thread < step) values[thread] += values[thread + step];
  }
  if (thread == 0) out[blockIdx.x] = values[0];
}

__device__ float read_shared_of_function(int i) {
  __shared__ float of_function[32];
  const float value = of_function[i];
  of_function[i] = 3;
  return value;
}

template <typename T>
__global__ void read_fresh_shared_kernel(float* out) {
  __shared__ T of_template[32];
  __shared__ float2 pairs[32];
  const int i = static_cast<int>(threadIdx.x);
  out[i] = static_cast<float>(of_template[i]);
  out[32 + i] = read_shared_of_function(i);
  out[64 + i] = pairs[i].y;
  of_template[i] = 1;
  pairs[i] = make_float2(2, 2);
}

__global__ void warp_intrinsics_kernel(int* out) {
  const int lane = static_cast<int>(threadIdx.x);
  out[0 * 32 + lane] = __shfl_sync(kFull, lane, 5);
  out[1 * 32 + lane] = __shfl_xor_sync(kFull, lane, 3);
  out[2 * 32 + lane] = __shfl_down_sync(kFull, lane, 4);
  out[3 * 32 + lane] = __shfl_up_sync(kFull, lane, 4);
  out[4 * 32 + lane] = static_cast<int>(__ballot_sync(kFull, lane % 3 == 0));
  out[5 * 32 + lane] = __any_sync(kFull, lane == 31);
  out[6 * 32 + lane] = __all_sync(kFull, lane != 31);
  out[7 * 32 + lane] = static_cast<int>(__shfl_xor_sync(kFull, 1.5 * lane, 1) * 2);
  out[8 * 32 + lane] = __shfl_sync(kFull, lane, 1, 8);
  __syncwarp();
  out[9 * 32 + lane] = out[9 * 32 - 32 + (lane + 8) % 32];
}

__global__ void half_warp_sums_kernel(int* out) {
  const int lane = static_cast<int>(threadIdx.x);
  const unsigned mask = lane < 16 ? 0x0000ffffu : 0xffff0000u;
  int sum = lane;
  for (int step = 8; step > 0; step /= 2) sum += __shfl_xor_sync(mask, sum, step);
  out[lane] = sum;
}

__global__ void count_threads_kernel(unsigned* out) { atomicAdd(out, 1u); }

__global__ void grid_indices_kernel(int* out) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned index = block * (blockDim.x * blockDim.y * blockDim.z) + thread;
  out[index] = static_cast<int>(index);
}

__global__ void bfloat16_round_trip_kernel(float* out, const float* in) {
  const __nv_bfloat162 pair =
      __floats2bfloat162_rn(in[threadIdx.x], __bfloat162float(__float2bfloat16_rn(1.0f)));
  out[threadIdx.x] = __low2float(pair) * __high2float(pair);
}

__global__ void half_block_at_barrier_kernel() {
  if (threadIdx.x < 32) return;
  __syncthreads();
}

__global__ void two_different_barriers_kernel() {
  if (threadIdx.x % 2 == 0) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

__global__ void shuffle_with_exited_lane_kernel() {
  if (threadIdx.x == 7) return;
  __shfl_sync(kFull, 1, 0);
}

__global__ void shuffle_with_lane_at_barrier_kernel() {
  if (threadIdx.x == 7) {
    __syncthreads();
  } else {
    __shfl_sync(kFull, 1, 0);
    __syncthreads();
  }
}

__global__ void write_past_end_kernel(float* out, int index) { out[index] = 1; }

}  // namespace

cudaError_t add_one(cudaStream_t stream, int* out, const int* in, int count) {
  return launch(stream, (static_cast<unsigned>(count) + 63) / 64, 64, add_one_kernel, out, in,
                count);
}
cudaError_t block_sums(cudaStream_t stream, float* out, const float* in, int blocks) {
  return launch(stream, static_cast<unsigned>(blocks), 256, block_sums_kernel<true>, out, in);
}
cudaError_t block_sums_without_barrier(cudaStream_t stream, float* out, const float* in,
                                       int blocks) {
  return launch(stream, static_cast<unsigned>(blocks), 256, block_sums_kernel<false>, out, in);
}
cudaError_t read_fresh_shared(cudaStream_t stream, float* out) {
  return launch(stream, 4, 32, read_fresh_shared_kernel<float>, out);
}
cudaError_t warp_intrinsics(cudaStream_t stream, int* out) {
  return launch(stream, 1, 32, warp_intrinsics_kernel, out);
}
cudaError_t half_warp_sums(cudaStream_t stream, int* out) {
  return launch(stream, 1, 32, half_warp_sums_kernel, out);
}
cudaError_t count_threads(cudaStream_t stream, unsigned* out) {
  return launch(stream, 8, 96, count_threads_kernel, out);
}
cudaError_t grid_indices(cudaStream_t stream, int* out) {
  return launch(stream, dim3(3, 2, 2), dim3(4, 3, 2), grid_indices_kernel, out);
}
cudaError_t bfloat16_round_trip(cudaStream_t stream, float* out, const float* in) {
  return launch(stream, 1, 32, bfloat16_round_trip_kernel, out, in);
}
cudaError_t half_block_at_barrier(cudaStream_t stream) {
  return launch(stream, 1, 64, half_block_at_barrier_kernel);
}
cudaError_t two_different_barriers(cudaStream_t stream) {
  return launch(stream, 1, 64, two_different_barriers_kernel);
}
cudaError_t shuffle_with_exited_lane(cudaStream_t stream) {
  return launch(stream, 1, 32, shuffle_with_exited_lane_kernel);
}
cudaError_t shuffle_with_lane_at_barrier(cudaStream_t stream) {
  return launch(stream, 1, 32, shuffle_with_lane_at_barrier_kernel);
}
cudaError_t write_past_end(cudaStream_t stream, float* out, int index) {
  return launch(stream, 1, 1, write_past_end_kernel, out, index);
}

}  // namespace atl::samples
