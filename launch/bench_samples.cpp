#include "launch/bench_samples.hpp"

#include <algorithm>
#include <cmath>

#include "base/median.hpp"

namespace atl {

Spread spread_of(std::vector<double> values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return {median(values), *least, *most};
}

Json to_json(const Spread& spread) {
  return {{"median", spread.median}, {"min", spread.least}, {"max", spread.most}};
}

void Samples::add(const EpochResult& result) {
  epoch_ms.push_back(result.epoch_ms);
  if (result.replayed) ++replayed;
  if (!std::isnan(result.exposed_comm_ms)) exposed_ms.push_back(result.exposed_comm_ms);
  if (result.cut && result.cut->ms) cut_ms.push_back(*result.cut->ms);
  if (result.blocks) {
    steps.push_back(result.blocks->steps);
    edges_kept.push_back(result.blocks->edges_kept);
  }
  bytes.push_back(static_cast<double>(result.bytes_sent));
  for (const auto& [phase, ms] : result.phase_ms) phase_ms[phase].push_back(ms);
}

}  // namespace atl
