#include "engine/placement/gradient_sync.hpp"

#include <algorithm>
#include <numeric>

namespace atl {

namespace {

// The product over the rows of all other ranks, on the rank that takes longest for it.
double others_seconds(const EpochSetting& setting, const std::vector<std::int64_t>& rows,
                      const LayerConfig& layer) {
  const std::int64_t total = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  double slowest = 0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    slowest = std::max(
        slowest, gemm_seconds(setting.topology.devices[r], total - rows[r], layer.in, layer.out));
  }
  return slowest;
}

}  // namespace

FactorProblem factor_problem(const EpochSetting& setting, std::span<const LayerStrategy> strategy) {
  FactorProblem problem;
  for (const PartQuality& part : setting.partition.parts) problem.rows.push_back(part.nodes);
  const auto factor = [&](const std::string& name, std::int64_t columns) {
    problem.factors.push_back({name, columns});
    return static_cast<int>(problem.factors.size()) - 1;
  };
  for (const LayerConfig& layer : planned_layers(setting.model, strategy)) {
    const std::string name = fmt::format("layers.{}", layer.index);
    const double extra_s = others_seconds(setting, problem.rows, layer);
    // Multiply first: x^T (S^T dz); aggregate first: (S x)^T dz; of a node's own row: x^T dz.
    const bool multiply_first = layer.order == MultiplyOrder::kMultiplyFirst;
    const bool root = has_root_weight(setting.model.kind);
    const int input = multiply_first || root ? factor(name + " input", layer.in) : -1;
    const int gradient = !multiply_first || root ? factor(name + " gradient", layer.out) : -1;
    const int left = multiply_first ? input : factor(name + " aggregate", layer.in);
    const int right = multiply_first ? factor(name + " aggregated gradient", layer.out) : gradient;
    problem.weights.push_back({name + ".weight", layer.in, layer.out, left, right, extra_s});
    if (root) {
      problem.weights.push_back(
          {name + ".root_weight", layer.in, layer.out, input, gradient, extra_s});
    }
  }
  return problem;
}

}  // namespace atl
