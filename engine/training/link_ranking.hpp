// How well links are told from other pairs, by OGB's definitions: mean reciprocal rank and the
// share of hits among the first K.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>

namespace atl {

enum class LinkMetric : std::uint8_t { kMrr, kHits10, kHits20, kHits50, kHits100 };
inline constexpr std::size_t kLinkMetrics = 5;
inline constexpr std::array<std::int64_t, kLinkMetrics> kHitsAt = {0, 10, 20, 50, 100};  // 0: MRR

// "mrr", "hits@10", ...: on the command line and in files.
const char* to_string(LinkMetric metric);
// "MRR", "Hits@10", ...
const char* shown_name(LinkMetric metric);

// Sums over edges of 1 / rank and of hits; all of them over `edges` is a mean.
struct LinkScores {
  std::array<double, kLinkMetrics> sums{};
  double edges = 0;

  // An edge and the scores of its own negatives, in any order: its rank is 1 plus the mean of how
  // many score higher and how many score at least as high. A hit at K has a rank of at most K.
  void add(float edge, std::span<const float> negatives);
  // An edge and the scores of negatives that all edges share, ascending: a hit at K scores above
  // the K-th highest of them, or there are fewer than K.
  void add_to_shared(float edge, std::span<const float> ascending);
  double mean(LinkMetric metric) const {
    return edges > 0 ? sums[static_cast<std::size_t>(metric)] / edges
                     : std::numeric_limits<double>::quiet_NaN();
  }
};

// Scores as they are ranked: one that is no number is the worst for an edge, the best for a
// negative.
float ranked_edge(float score);
float ranked_negative(float score);

}  // namespace atl
