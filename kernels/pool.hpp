// Pooling over in-edges, column by column: what its operations (kernels::Pool,
// PoolBackwardTargets, PoolBackwardSources, PoolSlope) need to know besides matrices.
//
// Functions of the rows x_j that row i has an edge from, as often as there are edges:
//
//   maximum      y_ic = max_j x_jc                      GraphSAGE, Hamilton et al. 2017, 3.3
//   softmax      y_ic = sum_j alpha_ijc x_jc,           DeeperGCN, Li et al. 2020, 3.3
//                alpha_ijc = exp(t x_jc) / sum_k exp(t x_kc)
//   power mean   y_ic = (mean_j b_jc^p)^(1/p),          the same
//                b_jc = x_jc, but at least kLeastBase and at most kMostBase
#pragma once

#include <cstdint>

#include "base/philox.hpp"

namespace atl {

enum class PoolKind : std::uint8_t { kMaximum, kSoftmax, kPowerMean };
const char* to_string(PoolKind kind);  // "maximum", "softmax" or "power mean"

// Limits of the bases of powers, as in DeeperGCN's code: powers of other numbers need not exist.
inline constexpr float kLeastBase = 1e-7F;
inline constexpr float kMostBase = 10;
// |p| is taken to be at least this: a trained p may pass 0, where the power mean is the geometric
// one, but for a share of this times half the variance of the logarithms.
inline constexpr float kLeastPower = 1e-3F;

struct PoolSpec {
  PoolKind kind = PoolKind::kMaximum;
  // t of softmax, where 0 gives the mean, or p of the power mean, where 1 does; both come closer to
  // the maximum the larger they are, and to the minimum the other way.
  float sharpness = 1;
  // Where a trained one lies instead, a number of the parameters' type in the backend's memory.
  const void* trained = nullptr;
  bool operator==(const PoolSpec&) const = default;
};

// That which counts; Number: float or double.
template <typename Number>
ATOLL_HOST_DEVICE Number sharpness_of(PoolKind kind, Number given) {
  if (kind == PoolKind::kMaximum) return 1;
  const auto least = static_cast<Number>(kLeastPower);
  if (kind == PoolKind::kSoftmax || given >= least || given <= -least) return given;
  return given < 0 ? -least : least;
}

}  // namespace atl
