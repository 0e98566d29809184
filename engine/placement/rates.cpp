#include <algorithm>

#include "engine/placement/topology.hpp"

namespace atl {

double rate_at(const std::vector<RateAtWidth>& rates, std::int64_t columns) {
  const auto above =
      std::find_if(rates.begin(), rates.end(), [&](const auto& r) { return r.columns >= columns; });
  if (above == rates.end()) return rates.back().per_s;
  if (above == rates.begin()) return above->per_s;
  const RateAtWidth& below = *(above - 1);
  const double share = static_cast<double>(columns - below.columns) /
                       static_cast<double>(above->columns - below.columns);
  return below.per_s + share * (above->per_s - below.per_s);
}

}  // namespace atl
