// The exponential function in vectors.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cpu/vectors.hpp"

namespace atl {

// Below it results are 0: that of the number itself is 2^-126, the least normal one.
inline constexpr float kLeastExponent = -87.33654F;

// y = exp(x) for x <= 0, at most 1.5 units in the last place off; 0 below kLeastExponent, NaN of
// NaN. x = n log 2 + r with |r| <= log(2) / 2, where log 2 is a number of few bits, of which n
// multiples are exact, and a rest; exp(r) by the polynomial of Cephes (Moshier, expf.c).
template <int kBytes>
ATOLL_INLINE inline void exp_of_negative(const typename Vectors<kBytes>::Floats& x,
                                         typename Vectors<kBytes>::Floats& y) {
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
  sum = sum * (r * r) + r + 1.0F;
  Words power;
  std::memcpy(&power, &rounded, kBytes);
  power = (power << 23U) + 0x3F800000U;
  Floats scale;
  std::memcpy(&scale, &power, kBytes);
  y = x < kLeastExponent ? Floats{} : sum * scale;
}

}  // namespace atl
