#include "engine/placement/boundary_recomputation.hpp"

#include <cmath>

#include "base/error.hpp"
#include "engine/placement/min_cut.hpp"

namespace atl {

namespace {

// Variables of the cut: two per row, rows of the lowest layer first.
class RowVariables {
 public:
  explicit RowVariables(const RecomputationProblem& problem) {
    for (const auto& layer : problem.layers) {
      first_.push_back(count_);
      count_ += 2 * static_cast<int>(layer.size());
    }
  }
  int count() const { return count_; }
  int needed(std::size_t layer, std::size_t row) const {
    return first_[layer] + 2 * static_cast<int>(row);
  }
  int recomputed(std::size_t layer, std::size_t row) const { return needed(layer, row) + 1; }

 private:
  std::vector<int> first_;
  int count_ = 0;
};

void check_recomputation(const RecomputationProblem& problem) {
  for (std::size_t l = 0; l < problem.layers.size(); ++l) {
    const std::size_t below = l > 0 ? problem.layers[l - 1].size() : 0;
    for (const RemoteRow& row : problem.layers[l]) {
      ATOLL_ASSERT(std::isfinite(row.fetch_s) && row.fetch_s >= 0, "fetch_s {}", row.fetch_s);
      ATOLL_ASSERT(row.recompute_s >= 0, "recompute_s {}", row.recompute_s);
      for (const std::int32_t input : row.inputs) {
        ATOLL_ASSERT(input >= 0 && static_cast<std::size_t>(input) < below,
                     "input {} of a row of layer {}, with {} rows below it", input, l, below);
      }
    }
  }
}

CutProblem recomputation_cut(const RecomputationProblem& problem, const RowVariables& variables) {
  CutProblem cut;
  cut.if_zero.assign(static_cast<std::size_t>(variables.count()), 0.0);
  cut.if_one = cut.if_zero;
  for (std::size_t l = 0; l < problem.layers.size(); ++l) {
    for (std::size_t i = 0; i < problem.layers[l].size(); ++i) {
      const RemoteRow& row = problem.layers[l][i];
      const int needed = variables.needed(l, i);
      const int recomputed = variables.recomputed(l, i);
      if (row.needed) cut.if_zero[needed] = kForbidden;
      cut.if_one[recomputed] = row.recompute_s;
      // Needed and not recomputed: it is fetched.
      cut.pairs.push_back({.low = recomputed, .high = needed, .weight = row.fetch_s});
      for (const std::int32_t input : row.inputs) {
        cut.pairs.push_back({.low = variables.needed(l - 1, static_cast<std::size_t>(input)),
                             .high = recomputed,
                             .weight = kForbidden});
      }
    }
  }
  return cut;
}

}  // namespace

RecomputationPlan plan_recomputation(const RecomputationProblem& problem) {
  check_recomputation(problem);
  const RowVariables variables(problem);
  const CutSolution solution = minimise_cut(recomputation_cut(problem, variables));
  RecomputationPlan plan;
  plan.seconds = solution.cost;
  plan.bound_s = solution.max_flow;
  for (std::size_t l = 0; l < problem.layers.size(); ++l) {
    auto& fetch = plan.fetch.emplace_back();
    auto& recompute = plan.recompute.emplace_back();
    for (std::size_t i = 0; i < problem.layers[l].size(); ++i) {
      const RemoteRow& row = problem.layers[l][i];
      const bool needed = solution.x[variables.needed(l, i)] != 0;
      const bool recomputed = solution.x[variables.recomputed(l, i)] != 0;
      fetch.push_back(needed && !recomputed ? 1 : 0);
      recompute.push_back(recomputed ? 1 : 0);
      if (row.needed) plan.fetch_all_s += row.fetch_s;
    }
  }
  return plan;
}

}  // namespace atl
