#include "engine/program/degree_factors.hpp"

#include <algorithm>
#include <cmath>

namespace atl {

namespace {

// Edges of each inner row of `csr`. A row has all of its edges, those to other ranks' nodes too.
std::vector<double> degrees(const CsrView& csr, std::int64_t inner, bool with_self) {
  std::vector<double> counts;
  counts.reserve(static_cast<std::size_t>(inner));
  for (std::int64_t i = 0; i < inner; ++i) {
    const auto row = csr.row(i);
    const auto loops = with_self ? std::ranges::count(row, static_cast<std::int32_t>(i)) : 0;
    const auto others = static_cast<std::int64_t>(row.size()) - loops;
    counts.push_back(static_cast<double>(std::max<std::int64_t>(others + (with_self ? 1 : 0), 1)));
  }
  return counts;
}

}  // namespace

DegreeFactors::DegreeFactors(const Rank& rank, const LocalGraphView& graph, bool with_self) {
  const auto of_own_rows = [&](std::vector<double> factors) {
    if (rank.group != nullptr) {
      factors = rank.group->of_own_rows(std::span<const double>(factors), graph.central, 1);
    }
    return std::vector<float>(factors.begin(), factors.end());
  };
  std::vector<double> sources = degrees(graph.backward.csr, graph.inner(), with_self);
  for (double& factor : sources) factor = 1 / std::sqrt(factor);
  std::vector<double> targets = degrees(graph.forward.csr, graph.inner(), with_self);
  for (double& factor : targets) factor = std::sqrt(factor);
  of_sources_ = {rank.backend, rank.queue, of_own_rows(std::move(sources))};
  of_targets_ = {rank.backend, rank.queue, of_own_rows(std::move(targets))};
  counting_ = {rank.backend, rank.queue, first_numbers<LocalId>(std::ssize(of_sources_.span()))};
}

}  // namespace atl
