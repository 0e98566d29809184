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

DegreeFactors::DegreeFactors(Backend& backend, Queue& queue, const LocalGraphView& graph,
                             bool with_self) {
  std::vector<LocalId> rows;
  std::vector<float> sources;
  std::vector<float> targets;
  for (std::int64_t i = 0; i < graph.inner(); ++i) rows.push_back(static_cast<LocalId>(i));
  for (const double degree : degrees(graph.backward.csr, graph.inner(), with_self)) {
    sources.push_back(static_cast<float>(1 / std::sqrt(degree)));
  }
  for (const double degree : degrees(graph.forward.csr, graph.inner(), with_self)) {
    targets.push_back(static_cast<float>(std::sqrt(degree)));
  }
  counting_ = {backend, queue, std::move(rows)};
  of_sources_ = {backend, queue, std::move(sources)};
  of_targets_ = {backend, queue, std::move(targets)};
}

}  // namespace atl
