// How well links are told from other pairs, by OGB's definitions: mean reciprocal rank and the
// share of hits among the first K.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace atl {

struct LinkMetric {
  std::int64_t hits_at = 0;  // K of Hits@K; 0: the mean reciprocal rank
  bool operator==(const LinkMetric&) const = default;
};

// "mrr", "hits@10", ...: on the command line and in files.
std::string to_string(LinkMetric metric);
// The reverse; empty for other text.
std::optional<LinkMetric> link_metric_named(const std::string& name);
// "MRR", "Hits@10", ...
std::string shown_name(LinkMetric metric);

// A metric of train (unknown), valid and test.
struct LinkQuality {
  LinkMetric metric;
  std::array<double, 3> splits;
};

// The MRR, and Hits@K for each number of a list such as "10,20,50", in its order; empty for other
// text: K are different whole numbers from 1 to 1,000,000, at most 32 of them.
std::vector<LinkMetric> link_metrics(const std::string& hits_at);

// Sums over edges of 1 / rank and of hits; all of them over `edges` is a mean.
struct LinkScores {
  std::vector<LinkMetric> metrics;
  std::vector<double> sums = std::vector<double>(metrics.size(), 0.0);
  double edges = 0;

  // An edge and the scores of its own negatives, in any order: its rank is 1 plus the mean of how
  // many score higher and how many score at least as high. A hit at K has a rank of at most K.
  void add(float edge, std::span<const float> negatives);
  // An edge and the scores of negatives that all edges share, ascending: a hit at K scores above
  // the K-th highest of them, or there are fewer than K.
  void add_to_shared(float edge, std::span<const float> ascending);
  // Of one of `metrics`; NaN without edges.
  double mean(LinkMetric metric) const;

 private:
  // A hit at K has a place of at most K.
  void add_rank(double rank, double place);
};

// Scores as they are ranked: one that is no number is the worst for an edge, the best for a
// negative.
float ranked_edge(float score);
float ranked_negative(float score);

}  // namespace atl
