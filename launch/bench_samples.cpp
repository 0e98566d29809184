#include "launch/bench_samples.hpp"

#include <algorithm>
#include <cmath>

namespace atl {

Spread spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  const double median =
      values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
  return {median, values.front(), values.back()};
}

Json to_json(const Spread& spread) {
  return {{"median", spread.median}, {"min", spread.least}, {"max", spread.most}};
}

void Samples::add(const EpochResult& result) {
  epoch_ms.push_back(result.epoch_ms);
  if (!std::isnan(result.exposed_comm_ms)) exposed_ms.push_back(result.exposed_comm_ms);
  bytes.push_back(static_cast<double>(result.bytes_sent));
  for (const auto& [phase, ms] : result.phase_ms) phase_ms[phase].push_back(ms);
}

}  // namespace atl
