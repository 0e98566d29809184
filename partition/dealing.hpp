// Cuts of a graph that is cut once, into many clusters, and whose clusters are dealt anew for each
// cut: to parts, or to blocks that are trained on one after the other (as Cluster-GCN makes its
// batches: Chiang et al., KDD 2019, section 3.2).
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

// Clusters that each of so many parts, or blocks, can get of a graph: at most `most`, fewer where
// they would have so few nodes that no edges were inside.
int clusters_per_part(std::int64_t nodes, int parts, int most);
// The options by which a graph is cut into clusters, where these are those of its cut.
PartitionOptions cluster_options(const PartitionOptions& options);
// The cluster of every node: clusters weigh nearly the same and have few edges between them. A
// function of graph and options only.
std::vector<std::int32_t> cut_into_clusters(const GraphView& graph, int count,
                                            const PartitionOptions& options);

// Receivers of clusters: the draws of one kind are not those of the other.
enum class DealtTo : std::uint8_t { kParts, kBlocks };
// The part or block of every one of parts * per_part clusters in dealing `number`, each of which
// gets `per_part`: a function of the arguments only. Blocks get equally many of clusters whose
// numbers are near.
std::vector<std::int32_t> deal_clusters(int parts, int per_part, std::uint64_t seed, DealtTo to,
                                        int number);

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
