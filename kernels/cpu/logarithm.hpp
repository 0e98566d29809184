// The natural logarithm in vectors.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cpu/vectors.hpp"

namespace atl {

// y = log(x) for normal x > 0, to 1.5e-7 of itself or of 1; NaN of NaN, else some number. x = 2^n m
// with m from sqrt(1/2) to sqrt(2), whose logarithm is the polynomial of Cephes (Moshier, logf.c).
template <int kBytes>
ATOLL_INLINE inline void logarithm(const typename Vectors<kBytes>::Floats& x,
                                   typename Vectors<kBytes>::Floats& y) {
  using Floats = typename Vectors<kBytes>::Floats;
  using Words = typename Vectors<kBytes>::Words;
  typedef std::int32_t Integers __attribute__((vector_size(kBytes)));
  Words bits;
  std::memcpy(&bits, &x, kBytes);
  // The bits of sqrt(1/2) become those of an exponent of 0.
  const Words moved = bits - 0x3F3504F3U;
  Integers exponent;
  std::memcpy(&exponent, &moved, kBytes);
  exponent >>= 23;
  const Floats n = __builtin_convertvector(exponent, Floats);
  Words without;
  std::memcpy(&without, &exponent, kBytes);
  bits -= without << 23U;
  Floats r;
  std::memcpy(&r, &bits, kBytes);
  r -= 1.0F;
  Floats sum = r * 7.0376836292e-2F - 1.1514610310e-1F;
  sum = sum * r + 1.1676998740e-1F;
  sum = sum * r - 1.2420140846e-1F;
  sum = sum * r + 1.4249322787e-1F;
  sum = sum * r - 1.6668057665e-1F;
  sum = sum * r + 2.0000714765e-1F;
  sum = sum * r - 2.4999993993e-1F;
  sum = sum * r + 3.3333331174e-1F;
  const Floats square = r * r;
  const Floats rest = (sum * r * square - n * 2.12194440e-4F) - square * 0.5F;
  const Floats found = n * 0.693359375F + (r + rest);
  y = x == x ? found : x;
}

}  // namespace atl
