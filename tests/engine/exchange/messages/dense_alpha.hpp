// Coefficients of aggregation as a dense matrix, for tests of what depends on them.
#pragma once

#include <cmath>
#include <vector>

#include "engine/exchange/distributed_operator.hpp"

namespace atl {

// alpha[i * n + j]: what row j, as it travels, is multiplied by when row i adds it up. By the
// formulas of the papers; edges of one pair of nodes add up. A message carries its column factor.
inline std::vector<double> dense_alpha(const CsrView& graph, Normalisation normalisation,
                                       Direction direction) {
  const std::int64_t n = graph.rows();
  const bool symmetric = normalisation == Normalisation::kSymmetric;
  std::vector<double> a(static_cast<std::size_t>(n * n), 0.0);
  std::vector<double> degree(static_cast<std::size_t>(n), 0.0);
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t e = graph.row_ptr[i]; e < graph.row_ptr[i + 1]; ++e) {
      a[i * n + graph.col_idx[e]] += graph.value(e);
    }
    if (symmetric && a[i * n + i] == 0) a[i * n + i] = 1;
    for (std::int64_t j = 0; j < n; ++j) degree[i] += a[i * n + j];
  }
  std::vector<double> alpha(a.size(), 0.0);
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      // Forward S = diag(r) A diag(c): r_i a_ij is left. Backward S^T = diag(c) A^T diag(r).
      if (direction == Direction::kForward) {
        if (degree[i] > 0) {
          alpha[i * n + j] = a[i * n + j] / (symmetric ? std::sqrt(degree[i]) : degree[i]);
        }
      } else if (!symmetric || degree[i] > 0) {
        alpha[i * n + j] = a[j * n + i] / (symmetric ? std::sqrt(degree[i]) : 1);
      }
    }
  }
  return alpha;
}

}  // namespace atl
