#include "engine/placement/gradient_sync.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "engine/program/operations/rules.hpp"

namespace atl {

namespace {

// The product over the rows of all other ranks, on the rank that takes longest for it.
double others_seconds(const EpochSetting& setting, const std::vector<std::int64_t>& rows,
                      std::int64_t inputs, std::int64_t outputs) {
  const std::int64_t total = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  double slowest = 0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    slowest = std::max(slowest,
                       gemm_seconds(setting.topology.devices[r], total - rows[r], inputs, outputs));
  }
  return slowest;
}

}  // namespace

FactorProblem factor_problem(const EpochSetting& setting, std::span<const LayerPlan> layers) {
  const Program program = model_program(planned_model(setting.model, layers), Pass::kTraining);
  FactorProblem problem;
  for (const PartQuality& part : setting.partition.parts) problem.rows.push_back(part.nodes);
  std::map<Value, int> factors;
  const auto factor = [&](Value value, int layer) {
    const auto [place, is_new] = factors.try_emplace(value, std::ssize(problem.factors));
    if (is_new) {
      const bool aggregated =
          program.at(value).is(rules::kAggregate) && program.scope_of(value).layer == layer;
      const char* const is = value < program.forward_end() ? aggregated ? "aggregate" : "input"
                             : aggregated                  ? "aggregated gradient"
                                                           : "gradient";
      problem.factors.push_back(
          {fmt::format("layers.{} {}", layer, is), program.at(value).columns});
    }
    return place->second;
  };
  for (const Operation& op : program.operations) {
    if (!op.is(rules::kWeightGradient)) continue;
    const DeclaredParameter& weight = program.parameters[static_cast<std::size_t>(op.parameter)];
    // A weight that several values are multiplied with has rows of its own for each.
    const std::int64_t inputs = weight_rows(program, op);
    problem.weights.push_back({weight.name, inputs, weight.columns,
                               factor(op.inputs[0], weight.layer),
                               factor(op.inputs[1], weight.layer),
                               others_seconds(setting, problem.rows, inputs, weight.columns)});
  }
  // As they were declared: backward goes through the layers from the last one.
  const auto declared = [&](const WeightMatrix& weight) {
    return std::ranges::find(program.parameters, weight.name, &DeclaredParameter::name) -
           program.parameters.begin();
  };
  std::ranges::sort(problem.weights, {}, declared);
  return problem;
}

}  // namespace atl
