// Cuts of a graph that is cut once, into many clusters, and whose clusters are dealt to the parts
// anew for each cut (as Cluster-GCN makes its batches: Chiang et al., KDD 2019, section 3.2).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "partition/partitioner.hpp"

namespace atl {

struct Clusters {
  int parts = 1;
  int per_part = 1;                      // of which each part gets as many in every cut
  std::vector<std::int32_t> cluster_of;  // of every node
  std::vector<std::int32_t> sequence;    // all nodes, cluster by cluster, neighbours close together

  int count() const { return parts * per_part; }
};

// Throws Error{kOption} for options whose cuts can't be made by dealing.
void check_dealing(const PartitionOptions& options);
// Clusters of nearly the same weight with few edges between them; options are those of the cut into
// parts. The result is a function of graph and options only. Nodes are put into sequence once, by
// options.node_order: for every cut and on every rank that would take longer than all else.
Clusters make_clusters(const GraphView& graph, int parts, const PartitionOptions& options);

// The part of every node in cut `cut`, from 1: a function of the arguments only.
std::vector<std::int32_t> deal(const Clusters& clusters, std::uint64_t seed, int cut);

// The share of in-edges of each inner node of a dealt part that lie inside of it, divided by the
// mean of that share over all cuts; a node counts as an in-neighbour of its own.
std::vector<float> relative_coverage(const LocalGraphView& part, const GraphView& graph,
                                     const Clusters& clusters);

}  // namespace atl
