// Products of a tall bf16 matrix and a small one in tile registers (AMX), for processors that have
// them: what follows a row block is fetched from memory while this one is multiplied, which a
// library that is called block by block can't do. In a small program this was 1.5 to 2 times as
// fast as oneDNN with 256 columns, and no faster with 40.
#pragma once

#include <cstdint>

#include "kernels/backend.hpp"
#include "kernels/bf16.hpp"

namespace atl {

// True if the processor has tiles for bf16, and both the system and oneDNN's ONEDNN_MAX_CPU_ISA let
// this process use them.
bool multiplies_in_tiles();

// How many Bf16 a factor of inner x cols takes as tiles.
std::int64_t tiled_entries(std::int64_t inner, std::int64_t cols);

// op(b) as tiles at `to`, filled up with zeros. Best where lines of the cache begin.
void store_as_tiles(Transpose transpose, ConstMatrixView b, Bf16* to);

// c = a op(b) + beta c for the tiles of op(b), beta 0 or 1, by the calling thread; as multiply() of
// product.hpp, but c may be bf16 with beta 1, too, and is rounded once. Where oneDNN multiplies in
// tiles, it makes the same bits of matrices without gaps between rows.
void multiply_tiles(ConstMatrixView a, const Bf16* tiles, double beta, MatrixView c);

// --- a^T b of two tall matrices, as in the gradient of a weight: tiles_transposed.cpp ------------
//
// Sums take rows one after the other, where oneDNN has blocks of its own, so their last bits differ
// from those of processors without tiles. They depend neither on threads nor on runs.

// True if multiplies_in_tiles(), and a result of a_cols x b_cols fits the second cache.
bool transposes_in_tiles(std::int64_t a_cols, std::int64_t b_cols);

// How many floats of memory multiply_transposed_tiles() takes: best where lines of the cache begin.
std::int64_t transposed_tiles_floats(std::int64_t a_cols, std::int64_t b_cols);

// c = a^T b by the calling thread, where transposes_in_tiles(). Sums are f32, over the rows in
// their order. c is f32.
void multiply_transposed_tiles(ConstMatrixView a, ConstMatrixView b, float* memory, MatrixView c);

}  // namespace atl
