// Activation functions and their gradients in vectors.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cpu/exponential.hpp"
#include "kernels/cpu/vectors.hpp"
#include "kernels/views.hpp"

namespace atl {

// y = erfc(z), the complementary error function, for z >= 0, at most 2e-7 off; 0 from 4 on, where
// it is less than 2e-8, and of NaN. -log(erfc(z)) is close to a polynomial: the one here
// makes the largest error of erfc on [0, 4] the least (Lawson's weighted least squares), 1.6e-8.
template <int kBytes>
ATOLL_INLINE inline void erfc_of_positive(const typename Vectors<kBytes>::Floats& z,
                                          typename Vectors<kBytes>::Floats& y) {
  using Floats = typename Vectors<kBytes>::Floats;
  Floats sum = z * 3.144156445e-5F - 3.088113534e-4F;
  sum = sum * z + 1.03242461e-3F;
  sum = sum * z + 5.36905678e-4F;
  sum = sum * z - 1.958394372e-2F;
  sum = sum * z + 1.029196089e-1F;
  sum = sum * z + 6.365977338e-1F;
  sum = sum * z + 1.128380252F;
  // exp of less than kLeastExponent is 0.
  exponential<kBytes>(z < 4.0F ? -z * sum : Floats{} - 100.0F, y);
}

// y = Phi(x) of the normal distribution.
template <int kBytes>
ATOLL_INLINE inline void normal_distribution(const typename Vectors<kBytes>::Floats& x,
                                             typename Vectors<kBytes>::Floats& y) {
  constexpr float kRootHalf = 0.70710678F;
  typename Vectors<kBytes>::Words bits;
  typename Vectors<kBytes>::Floats size;
  typename Vectors<kBytes>::Floats tail;
  std::memcpy(&bits, &x, kBytes);
  bits &= 0x7FFFFFFFU;
  std::memcpy(&size, &bits, kBytes);
  erfc_of_positive<kBytes>(size * kRootHalf, tail);
  tail *= 0.5F;
  y = x < 0.0F ? tail : 1.0F - tail;
}

// x = f(x) of another function than relu. NaN stays NaN.
template <int kBytes>
ATOLL_INLINE inline void activate(ActivationFunction function,
                                  typename Vectors<kBytes>::Floats& x) {
  typename Vectors<kBytes>::Floats other = x;
  switch (function) {
    case ActivationFunction::kLeakyRelu:
      x = x < 0.0F ? x * static_cast<float>(kLeakySlope) : x;
      return;
    case ActivationFunction::kElu:
      expm1_of_negative<kBytes>(x, other);
      x = x < 0.0F ? other : x;
      return;
    case ActivationFunction::kGelu:
      normal_distribution<kBytes>(x, other);
      x *= other;
      return;
    default:
      return;
  }
}

// gradient *= f' where f gives `from`, times the factor that `unscaled` undoes; of gelu, at `from`.
template <int kBytes>
ATOLL_INLINE inline void multiply_by_slope(ActivationFunction function, float unscaled,
                                           const typename Vectors<kBytes>::Floats& from,
                                           typename Vectors<kBytes>::Floats& gradient) {
  using Floats = typename Vectors<kBytes>::Floats;
  Floats slope;
  switch (function) {
    case ActivationFunction::kLeakyRelu:
      slope = Floats{} + static_cast<float>(kLeakySlope);
      break;
    case ActivationFunction::kElu:
      slope = from * unscaled + 1.0F;
      break;
    default: {
      Floats density;
      exponential<kBytes>(from * from * -0.5F, density);
      normal_distribution<kBytes>(from, slope);
      gradient *= slope + from * density * 0.39894228F;
      return;
    }
  }
  gradient *= from > 0.0F ? Floats{} + 1.0F : slope;
}

}  // namespace atl
