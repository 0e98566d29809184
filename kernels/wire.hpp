// The layout of quantized messages on the wire, and what packing and unpacking them needs.
//
// A message is one row of F values. At b = 1, 2, 4, 8 or 16 bits it is
//   [zero bf16][step bf16][F codes of b bits],
// the codes little-endian within the row, the first in the lowest bits, filled up with zero bits to
// 4 bytes; value j is zero + code_j * step, whose product is exact in f32. At 32 bits it is the F
// values as stored (2 bytes each with bf16 storage) and nothing else.
//
// The quantizer: stochastic rounding as in AdaQP (Wan, Zhao, Wu, "Adaptive message quantization and
// parallelization for distributed full-graph GNN training", MLSys 2023), but with zero and step
// rounded to what is sent before codes are made, so that codes are unbiased. For a row v (f32, each
// the product of element and scale), in f32:
//   zero  = min v, rounded down to bf16            range = max v - zero
//   step  = range / (2^b - 1), rounded up to bf16  t = (v - zero) / step
//   code  = floor(t) + (u < t - floor(t)), at most 2^b - 1; 0 if step is 0
// where u is random_uniform of (key, node, column). At 16 bits t and what follows are double. Every
// backend makes the same bytes, and the same values from them.
//
// To the nearest, for rows that are what other messages have left over (their error then shrinks
// from one to the next, because it is at most the row itself): u = 1/2, and at 1, 2 and 4 bits the
// row's two means are codes. With q = the value's code at 16 bits to the nearest, m = the mean of
// q, low and high = the means of q up to m and above it (each rounded down; high = low if none is
// above), z and s = zero and step at 16 bits:
//   n     = codes between the two means: 1, 1 and 5
//   step  = (high - low) s / n, rounded to bf16    zero = z + low s - (0, 1 or 5) step, the same
//   code  = floor(t) + (1/2 < t - floor(t)), at least 0 and at most 2^b - 1
// Where one of these codes would stand for no number, zero and step are those of above. Integers
// have the same sums in any order. For Gaussian rows the square of what is lost is .36, .22, and
// .012 of the row's at 1, 2 and 4 bits.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/ids.hpp"
#include "base/philox.hpp"
#include "kernels/views.hpp"

namespace atl {

inline constexpr std::array<int, 6> kWireBits{1, 2, 4, 8, 16, 32};

// The share of the square of a Gaussian row of some hundred values that rounding to the nearest
// loses.
constexpr double nearest_loss(int bits) {
  return bits == 1    ? 0.363
         : bits == 2  ? 0.222
         : bits == 4  ? 0.0125
         : bits == 8  ? 4e-5
         : bits == 16 ? 6e-10
                      : 0;
}

// Bytes before the codes: zero and step.
inline constexpr std::int64_t kWireMetadataBytes = 4;

// Bytes of the codes of one message below 32 bits.
ATOLL_HOST_DEVICE constexpr std::int64_t wire_code_bytes(int bits, std::int64_t cols) {
  return (cols * bits + 31) / 32 * 4;
}

// Bytes of one message of `cols` values. bits: one of kWireBits.
std::int64_t wire_row_bytes(int bits, std::int64_t cols, DType storage);

// Messages to pack, grouped by the row they carry: a row for several receivers is read once and its
// rounding noise is shared. All spans in the backend's memory.
struct PackList {
  std::span<const LocalId> rows;        // [R] rows of x, each once
  std::span<const std::int64_t> first;  // [R + 1]: messages first[k] .. first[k + 1] carry rows[k]
  // [M] where each message starts in the packets, in bytes: a multiple of 4, at 32 bits of the
  // element size.
  std::span<const std::int64_t> offset;
  std::span<const std::uint8_t> bits;  // [M] one of kWireBits
};

// Rounding noise: uniform numbers of (key, node, column), as random_uniform gives them.
struct RoundingSpec {
  RandomKey key;
  std::span<const GlobalId> row_ids;  // node of each row of x
  const EpochState* state = nullptr;  // in backend memory; its epoch replaces the key's
  bool nearest = false;               // to the nearest code, without noise: one message per row

  ATOLL_HOST_DEVICE RandomKey key_now() const { return key_of_epoch(key, state); }
};

// The findings of packing, in the backend's memory. A bad row is one that can't be sent: it holds
// NaN or infinity, or numbers so large that what the receiver computes might overflow f32 or bf16.
// It is bad at every width, 32 bits included.
struct PackTrace {
  std::span<float> range;  // [R] max - zero of the scaled row, with the rounded zero; bad rows: NaN
  // [M] step^2 * sum_j f_j (1 - f_j), f = t - floor(t): the variance that rounding adds to the row.
  // 0 at 32 bits, of bad rows, and where rounding is to the nearest.
  std::span<float> variance;
  std::span<std::int64_t> bad;  // [1] lowered to the least k whose row is bad
};

// Messages to unpack. All spans in the backend's memory.
struct UnpackList {
  std::span<const LocalId> rows;         // [M] row of y that each message fills, each once
  std::span<const std::int64_t> offset;  // [M] as PackList's
  std::span<const std::uint8_t> bits;    // [M]
};

}  // namespace atl
