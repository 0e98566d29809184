// Products a^T b of two tall bf16 matrices in tile registers (AMX), as in the gradient of a weight.
// Sums take rows one after the other, where oneDNN has blocks of its own, so their last bits differ
// from those of processors without tiles. They depend neither on threads nor on runs.
#pragma once

#include <cstdint>

#include "kernels/backend.hpp"

namespace atl {

// True if multiplies_in_tiles(), and a result of a_cols x b_cols fits the second cache.
bool transposes_in_tiles(std::int64_t a_cols, std::int64_t b_cols);

// How many floats of memory multiply_transposed_tiles() takes: best where lines of the cache begin.
std::int64_t transposed_tiles_floats(std::int64_t a_cols, std::int64_t b_cols);

// c = a^T b by the calling thread, where transposes_in_tiles(). Sums are f32, over the rows in
// their order. c is f32.
void multiply_transposed_tiles(ConstMatrixView a, ConstMatrixView b, float* memory, MatrixView c);

}  // namespace atl
