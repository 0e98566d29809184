#include "engine/exchange/quantization/aggregation_scores.hpp"

#include <cmath>

namespace atl {

std::vector<float> aggregation_scores(const DistributedOperator& op, Sensitivity sensitivity) {
  const auto halo = static_cast<std::size_t>(op.with_halo() - op.inner());
  const std::int64_t inner = op.inner();
  std::vector<double> scores(halo, 0.0);
  // Coefficients of one row: several edges of one pair of nodes add up to one.
  std::vector<double> alpha(halo, 0.0);
  std::vector<std::size_t> touched;
  for (std::int64_t i = op.marginal.begin; i < op.marginal.end; ++i) {
    const double scale = op.row_scale.empty() ? 1 : op.row_scale[i];
    touched.clear();
    for (std::int64_t e = op.csr.row_ptr[i]; e < op.csr.row_ptr[i + 1]; ++e) {
      const std::int64_t column = op.csr.col_idx[e];
      if (column < inner) continue;
      const auto k = static_cast<std::size_t>(column - inner);
      if (alpha[k] == 0) touched.push_back(k);
      alpha[k] += scale * op.csr.value(e);
    }
    for (const std::size_t k : touched) {
      scores[k] += sensitivity == Sensitivity::kVariance ? alpha[k] * alpha[k] : std::abs(alpha[k]);
      alpha[k] = 0;
    }
  }
  std::vector<float> result(halo);
  for (std::size_t k = 0; k < halo; ++k) {
    result[k] = static_cast<float>(sensitivity == Sensitivity::kVariance ? scores[k]
                                                                         : scores[k] * scores[k]);
  }
  return result;
}

}  // namespace atl
