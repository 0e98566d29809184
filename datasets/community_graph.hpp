// Random graphs with classes, power-law degrees and homophily: edges as a function of their index,
// and features that show the class of a node through noise. Internal to datasets/.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "datasets/edge_sampler.hpp"

namespace atl {

struct CommunitySpec {
  std::vector<std::int64_t> class_sizes;  // nodes per class, each at least 1
  double homophily = 0.8;                 // share of edges inside a class
  // Expected degree of the k-th busiest node of a class falls as (k + k0)^-skew; k0 follows from
  // busiest, the ratio of the largest expected degree to the mean.
  double skew = 0.6;
  double busiest = 30;
  // Neighbours of nodes that get so many beside: of one drawn at random for each entry, any of
  // which is a neighbour once. These are the first edges, from the neighbour to the hub.
  std::vector<std::int64_t> hubs;
  std::uint64_t seed = 0;
};

class CommunityGraph {
 public:
  explicit CommunityGraph(const CommunitySpec& spec);

  std::int64_t nodes() const { return static_cast<std::int64_t>(order_.size()); }
  Edge edge(std::uint64_t index) const;
  std::int64_t hub_edges() const { return first_hub_edge_.back(); }
  std::vector<std::int32_t> labels() const;

 private:
  void draw_hubs(std::span<const std::int64_t> degrees, std::uint64_t seed);
  Edge hub_edge(std::int64_t index) const;
  std::int64_t class_at(double position) const;  // of a position in [0, nodes)
  std::int32_t draw(std::int64_t class_index, double uniform) const;

  std::vector<std::int64_t> first_;           // classes + 1: positions of each class
  std::vector<std::int32_t> order_;           // node at each position
  std::vector<std::int64_t> hubs_;            // position of each
  std::vector<std::int64_t> first_hub_edge_;  // hubs + 1
  double same_class_ = 0;  // chance to draw the target from the class of the source
  double offset_ = 0;      // k0 as a share of the class
  double span_ = 0;        // of the transformed distribution
  double power_ = 0;
  RandomKey key_;
};

// Rows [begin, begin + labels.size()) of the features: signal * centre(label) + noise, in parallel.
// `centres` is [classes, columns] of length about 1, or empty for noise alone.
void noisy_features(std::span<const std::int32_t> labels, std::int64_t begin, std::int64_t columns,
                    std::span<const float> centres, double signal, std::uint64_t seed,
                    std::span<float> rows);
std::vector<float> class_centres(std::int64_t classes, std::int64_t columns, std::uint64_t seed);

}  // namespace atl
