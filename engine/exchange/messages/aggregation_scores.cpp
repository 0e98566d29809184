#include "engine/exchange/messages/aggregation_scores.hpp"

#include <cmath>

#include "engine/exchange/exchange_parts.hpp"

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

std::vector<float> sent_scores(const DistributedOperator& op, Sensitivity sensitivity,
                               Transport& transport) {
  const HaloListsView& halo = op.halo;
  const std::vector<float> mine = aggregation_scores(op, sensitivity);
  std::vector<float> of_received;
  for (std::size_t peer = 0; peer + 1 < halo.recv_offset.size(); ++peer) {
    const auto first = mine.begin() + halo.first_halo_row(peer);
    of_received.insert(of_received.end(), first, first + halo.received_from(peer));
  }
  std::vector<float> of_sent(halo.send_rows.size());
  exchange_parts(transport, of_received, halo.recv_offset, of_sent, halo.send_offset,
                 {"aggregation scores", to_string(op.direction)});
  return of_sent;
}

}  // namespace atl
