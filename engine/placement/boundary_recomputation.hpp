// Which rows of other ranks a rank had better compute itself instead of fetching them every epoch.
#pragma once

#include <cstdint>
#include <vector>

namespace atl {

// A row that the rank doesn't own, in one layer; what costs are of one epoch.
struct RemoteRow {
  double fetch_s = 0;      // 0: is here anyway, or is fetched once for all epochs
  double recompute_s = 0;  // without its inputs; infinity: it can't be
  bool needed = false;     // by the rank's own rows of the next layer
  // What recomputing it reads that the rank doesn't own: rows of the layer below, by position.
  std::vector<std::int32_t> inputs;
};

// By layer, the lowest first. The rows that the rank owns are left out: they cost nothing.
struct RecomputationProblem {
  std::vector<std::vector<RemoteRow>> layers;
};

struct RecomputationPlan {
  // By layer and row. What is neither is not needed.
  std::vector<std::vector<std::uint8_t>> fetch;
  std::vector<std::vector<std::uint8_t>> recompute;
  double fetch_all_s = 0;  // what fetching every needed row takes
  double seconds = 0;      // what this plan takes
  double bound_s = 0;  // no plan takes less: the value of a maximum flow; equal but for rounding
  double saved_s() const { return fetch_all_s - seconds; }
};

// The least sum of costs, for one receiving rank; of equal ones that with the fewest rows fetched
// or recomputed. Costs add up, so this says nothing of what hides behind what; a simulation does. A
// row that is recomputed needs all its inputs, fetched or recomputed in turn, and once for all that
// read them. Two binaries per row, needed and recomputed: one minimum cut.
//
// The first aggregate of constant features is kept for the whole run, so where it is cached, rows
// of the first layer have no inputs, and otherwise inputs whose fetch_s is 0.
RecomputationPlan plan_recomputation(const RecomputationProblem& problem);

}  // namespace atl
