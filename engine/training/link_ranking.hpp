// How well links are told from other pairs, by OGB's definitions: mean reciprocal rank and the
// share of hits among the first K.
#pragma once

#include <span>
#include <vector>

#include "engine/training/metric_names.hpp"

namespace atl {

// Sums over edges of 1 / rank and of hits; all of them over `edges` is a mean.
struct LinkScores {
  std::vector<Metric> metrics;
  std::vector<double> sums = std::vector<double>(metrics.size(), 0.0);
  double edges = 0;

  // An edge and the scores of its own negatives, in any order: its rank is 1 plus the mean of how
  // many score higher and how many score at least as high. A hit at K has a rank of at most K.
  void add(float edge, std::span<const float> negatives);
  // An edge and the scores of negatives that all edges share, ascending: a hit at K scores above
  // the K-th highest of them, or there are fewer than K.
  void add_to_shared(float edge, std::span<const float> ascending);
  // The mean of one of `metrics`; NaN without edges.
  double mean(Metric metric) const;

 private:
  // A hit at K has a place of at most K.
  void add_rank(double rank, double place);
};

// Scores as they are ranked: one that is no number is the worst for an edge, the best for a
// negative.
float ranked_edge(float score);
float ranked_negative(float score);

}  // namespace atl
