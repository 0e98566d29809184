#include "engine/training/link_ranking.hpp"

#include <algorithm>
#include <cmath>

namespace atl {

namespace {

constexpr float kHighest = std::numeric_limits<float>::infinity();

constexpr std::array<const char*, kLinkMetrics> kNames = {"mrr", "hits@10", "hits@20", "hits@50",
                                                          "hits@100"};
constexpr std::array<const char*, kLinkMetrics> kShownNames = {"MRR", "Hits@10", "Hits@20",
                                                               "Hits@50", "Hits@100"};

}  // namespace

const char* to_string(LinkMetric metric) { return kNames[static_cast<std::size_t>(metric)]; }
const char* shown_name(LinkMetric metric) { return kShownNames[static_cast<std::size_t>(metric)]; }

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
  sums[0] += 1 / rank;
  for (std::size_t m = 1; m < kLinkMetrics; ++m) {
    sums[m] += rank <= static_cast<double>(kHitsAt[m]) ? 1 : 0;
  }
  edges += 1;
}

void LinkScores::add_to_shared(float edge, std::span<const float> ascending) {
  const float score = ranked_edge(edge);
  const auto equal = std::ranges::lower_bound(ascending, score);
  const auto higher = std::ranges::upper_bound(ascending, score);
  const auto above = static_cast<double>(ascending.end() - higher);
  const auto at_least = static_cast<double>(ascending.end() - equal);
  sums[0] += 1 / (1 + (above + at_least) / 2);
  for (std::size_t m = 1; m < kLinkMetrics; ++m) {
    sums[m] += at_least < static_cast<double>(kHitsAt[m]) ? 1 : 0;
  }
  edges += 1;
}

}  // namespace atl
