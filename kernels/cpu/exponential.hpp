// The exponential function in vectors.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cpu/vectors.hpp"

namespace atl {

// Below it results are 0: that of the number itself is 2^-126, the least normal one.
inline constexpr float kLeastExponent = -87.33654F;
inline constexpr float kMostExponent = 87.0F;

// exp(x) = scale * (less_one + 1) for x from kLeastExponent to kMostExponent: x = n log 2 + r with
// |r| <= log(2) / 2, where log 2 is a number of few bits, of which n multiples are exact, and a
// rest; scale = 2^n, less_one = exp(r) - 1 by the polynomial of Cephes (Moshier, expf.c).
template <int kBytes>
ATOLL_INLINE inline void exp_parts(const typename Vectors<kBytes>::Floats& x,
                                   typename Vectors<kBytes>::Floats& scale,
                                   typename Vectors<kBytes>::Floats& less_one) {
  using Floats = typename Vectors<kBytes>::Floats;
  using Words = typename Vectors<kBytes>::Words;
  // A sum with 1.5 * 2^23 is rounded to a whole number, which its lowest bits hold.
  constexpr float kRound = 0x1.8p23F;
  const Floats rounded = x * 1.44269504F + kRound;
  const Floats n = rounded - kRound;
  const Floats r = (x - n * 0.693359375F) - n * -2.12194440e-4F;
  Floats sum = r * 1.9875691500e-4F + 1.3981999507e-3F;
  sum = sum * r + 8.3334519073e-3F;
  sum = sum * r + 4.1665795894e-2F;
  sum = sum * r + 1.6666665459e-1F;
  sum = sum * r + 5.0000001201e-1F;
  less_one = sum * (r * r) + r;
  Words power;
  std::memcpy(&power, &rounded, kBytes);
  power = (power << 23U) + 0x3F800000U;
  std::memcpy(&scale, &power, kBytes);
}

// y = exp(x) for x <= kMostExponent, at most 1.5 units in the last place off; 0 below
// kLeastExponent, NaN of NaN.
template <int kBytes>
ATOLL_INLINE inline void exponential(const typename Vectors<kBytes>::Floats& x,
                                     typename Vectors<kBytes>::Floats& y) {
  typename Vectors<kBytes>::Floats scale, less_one;
  exp_parts<kBytes>(x, scale, less_one);
  y = x < kLeastExponent ? typename Vectors<kBytes>::Floats{} : (less_one + 1.0F) * scale;
}

// y = exp(x) - 1 for x <= 0, to 2.5e-7 of itself, also where it is close to 0; NaN of NaN. For
// x > 0 some number.
template <int kBytes>
ATOLL_INLINE inline void expm1_of_negative(const typename Vectors<kBytes>::Floats& x,
                                           typename Vectors<kBytes>::Floats& y) {
  using Floats = typename Vectors<kBytes>::Floats;
  Floats scale, less_one;
  exp_parts<kBytes>(x, scale, less_one);
  y = x < kLeastExponent ? Floats{} - 1.0F : less_one * scale + (scale - 1.0F);
}

}  // namespace atl
