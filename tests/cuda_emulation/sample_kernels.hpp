// Launchers of small kernels that use, or break, one rule of device code each.
#pragma once

#include <cuda_runtime.h>

namespace atl::samples {

// out[i] = in[i] + 1 for i < count. blocks * 64 threads must cover count.
cudaError_t add_one(cudaStream_t stream, int* out, const int* in, int count);
// out[block] = sum of 256 floats of in, with shared memory and barriers; count = 256 * blocks.
cudaError_t block_sums(cudaStream_t stream, float* out, const float* in, int blocks);
// The same without the barrier between writing and reading shared memory.
cudaError_t block_sums_without_barrier(cudaStream_t stream, float* out, const float* in,
                                       int blocks);
// out[thread] = what the thread finds in shared memory that nobody wrote; 32 values, three arrays.
cudaError_t read_fresh_shared(cudaStream_t stream, float* out);
// Results of every warp intrinsic for one warp of 32 lanes; out has 10 rows of 32 values.
cudaError_t warp_intrinsics(cudaStream_t stream, int* out);
// Halves of the warp reduce apart from each other; out[lane] = sum of the lanes of its half.
cudaError_t half_warp_sums(cudaStream_t stream, int* out);
// out[0] counts the threads of 8 blocks of 96 with atomics.
cudaError_t count_threads(cudaStream_t stream, unsigned* out);
// out[i] = linear index of thread i of a 3 x 2 x 2 grid of 4 x 3 x 2 blocks.
cudaError_t grid_indices(cudaStream_t stream, int* out);
// out[i] = in[i] to bfloat16 and back, for 32 values.
cudaError_t bfloat16_round_trip(cudaStream_t stream, float* out, const float* in);

// These break a rule; executing them ends the process.
cudaError_t half_block_at_barrier(cudaStream_t stream);
cudaError_t two_different_barriers(cudaStream_t stream);
cudaError_t shuffle_with_exited_lane(cudaStream_t stream);
cudaError_t shuffle_with_lane_at_barrier(cudaStream_t stream);
cudaError_t write_past_end(cudaStream_t stream, float* out, int index);

}  // namespace atl::samples
