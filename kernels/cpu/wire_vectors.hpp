// The costly parts of packing a quantized message, in vectors: drawing the rounding noise and
// rounding; and unpacking one into bf16.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/philox.hpp"
#include "kernels/bf16.hpp"
#include "kernels/cpu/simd.hpp"

namespace atl {

// Columns that are drawn together.
inline constexpr std::int64_t kNoiseUnit = 128;

// random_uniform of (key, row, first + j) for j in [0, count), and on to the next multiple of
// kNoiseUnit, for which `noise` has room. first: a multiple of 4.
void draw_noise(Isa isa, const RandomKey& key, std::uint64_t row, std::int64_t first,
                std::int64_t count, float* noise);

// Codes of `count` values (a multiple of 64) at 8 bits or fewer, a byte each: floor(t) + (noise <
// t - floor(t)), at most `top`, where t = (value - zero) / step, step above 0 and no value below
// zero. Returns the sum of f (1 - f), f = t - floor(t).
float round_to_codes(Isa isa, const float* values, const float* noise, std::int64_t count,
                     float zero, float step, std::int32_t top, std::uint8_t* codes);

// The same at one bit, packed, where noise is 1/2 and half = step / 2, without dividing: a quotient
// that is above 1/2 is never rounded down to 1/2, so comparing value - zero with half agrees.
void compare_to_codes(Isa isa, const float* values, std::int64_t count, float zero, float half,
                      std::byte* packed);

// y[j] = high where bit j of `packed` is set, else low, for `count` bits, a multiple of 16.
void choose_by_codes(Isa isa, const std::byte* packed, std::int64_t count, float low, float high,
                     float* y);

// memcpy that leaves nothing in the caches and reads no line of `to` that it fills. Another thread
// sees it after finish_copies() of this one.
void copy_past_caches(void* to, const void* from, std::size_t bytes);
void finish_copies();

// y[j] = zero + codes[j] * step for j in [0, count), which is a number, not NaN: rows of NaN are
// not sent. Code: std::uint8_t or std::uint16_t.
template <typename Code>
void dequantize_to_bf16(Isa isa, const Code* codes, std::int64_t count, float zero, float step,
                        Bf16* y);

}  // namespace atl
