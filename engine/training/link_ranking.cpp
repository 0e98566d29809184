#include "engine/training/link_ranking.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"

namespace atl {

namespace {

constexpr float kHighest = std::numeric_limits<float>::infinity();

}  // namespace

float ranked_edge(float score) { return std::isnan(score) ? -kHighest : score; }
float ranked_negative(float score) { return std::isnan(score) ? kHighest : score; }

void LinkScores::add(float edge, std::span<const float> negatives) {
  std::int64_t higher = 0;
  std::int64_t equal = 0;
  for (const float negative : negatives) {
    higher += ranked_negative(negative) > ranked_edge(edge) ? 1 : 0;
    equal += ranked_negative(negative) == ranked_edge(edge) ? 1 : 0;
  }
  const double rank = 1 + static_cast<double>(higher) + static_cast<double>(equal) / 2;
  add_rank(rank, rank);
}

void LinkScores::add_to_shared(float edge, std::span<const float> ascending) {
  const float score = ranked_edge(edge);
  const auto equal = std::ranges::lower_bound(ascending, score);
  const auto higher = std::ranges::upper_bound(ascending, score);
  const auto above = static_cast<double>(ascending.end() - higher);
  const auto at_least = static_cast<double>(ascending.end() - equal);
  add_rank(1 + (above + at_least) / 2, 1 + at_least);
}

void LinkScores::add_rank(double rank, double place) {
  for (std::size_t m = 0; m < metrics.size(); ++m) {
    const bool hit = place <= static_cast<double>(metrics[m].hits_at);
    sums[m] += metrics[m].kind == MetricKind::kMrr ? 1 / rank : hit ? 1 : 0;
  }
  edges += 1;
}

double LinkScores::mean(Metric metric) const {
  const auto found = std::ranges::find(metrics, metric);
  ATOLL_ASSERT(found != metrics.end(), "{}", to_string(metric));
  return edges > 0 ? sums[static_cast<std::size_t>(found - metrics.begin())] / edges
                   : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace atl
