// The weights of a model as the question of plan_sufficient_factors.
#pragma once

#include "engine/placement/epoch_cost.hpp"
#include "engine/placement/sufficient_factors.hpp"

namespace atl {

// One weight per gradient that is a product; biases and norms, which are sums, are not asked about.
FactorProblem factor_problem(const EpochSetting& setting, std::span<const LayerPlan> layers);

}  // namespace atl
