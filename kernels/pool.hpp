// Pooling over in-edges, column by column: what its operations (Backend::pool,
// pool_backward_targets, pool_backward_sources) need to know besides matrices.
//
// Of the rows x_j that row i has an edge from, as often as there are edges:
//
//   maximum   y_ic = max_j x_jc                                  GraphSAGE, Hamilton et al.
//   2017, 3.3 softmax   y_ic = sum_j alpha_ijc x_jc,                       DeeperGCN, Li et al.
//   2020, 3.3
//             alpha_ijc = exp(t x_jc) / sum_k exp(t x_kc)
#pragma once

#include <cstdint>

namespace atl {

enum class PoolKind : std::uint8_t { kMaximum, kSoftmax };
const char* to_string(PoolKind kind);  // "maximum" or "softmax"

struct PoolSpec {
  PoolKind kind = PoolKind::kMaximum;
  float temperature = 1;  // t of softmax: 0 gives the mean, large ones the maximum
  bool operator==(const PoolSpec&) const = default;
};

}  // namespace atl
