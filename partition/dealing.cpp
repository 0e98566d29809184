#include "partition/dealing.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/parallel.hpp"
#include "base/philox.hpp"
#include "partition/random_permutation.hpp"

namespace atl {

namespace {

// Few: parts keep many of their edges. Many: two nodes that are neighbours meet in as many ways as
// there are clusters, and parts weigh the same. See docs/exchange.md.
constexpr int kClustersPerPart = 8;
// A cluster of fewer nodes has no edges inside.
constexpr std::int64_t kLeastNodes = 8;
// Clusters with numbers that follow one another are near in the graph, and most of them lie in one
// part of any cut. So of each run of them every block gets so many: then blocks have equal shares
// of all parts, whatever the cut, but for chance. Fewer would take more edges from blocks. See
// docs/blocks.md.
constexpr int kDealtOfEachRun = 4;

}  // namespace

int clusters_per_part(std::int64_t nodes, int parts, int most) {
  const std::int64_t bound = std::min(most, kMaxParts / parts);
  return static_cast<int>(std::clamp<std::int64_t>(nodes / (kLeastNodes * parts), 1, bound));
}

PartitionOptions cluster_options(const PartitionOptions& options) {
  PartitionOptions own;
  own.method = options.method == "file" ? "auto" : options.method;
  own.objective = PartitionObjective::kCut;  // no rows travel: an edge is inside or lost
  // Training nodes are too few to be divided among so many.
  if (options.balance != PartitionBalance::kEdgesTrain) own.balance = options.balance;
  own.seed = options.seed;
  own.cuts = options.cuts;
  own.imbalance = options.imbalance;
  return own;
}

std::vector<std::int32_t> cut_into_clusters(const GraphView& graph, int count,
                                            const PartitionOptions& options) {
  return partition_graph(graph, count, cluster_options(options), {});
}

void check_dealing(const PartitionOptions& options) {
  if (options.weights.empty()) return;
  fail_option(
      "--weights: found with --repartition-every, whose cuts give every rank as much as any other; "
      "allowed without it");
}

Clusters make_clusters(const GraphView& graph, int parts, const PartitionOptions& options) {
  check_dealing(options);
  Clusters clusters{parts, clusters_per_part(graph.nodes(), parts, kClustersPerPart), {}, {}};
  clusters.cluster_of = cut_into_clusters(graph, clusters.count(), options);
  const LocalGraphBuilder builder(graph, clusters.cluster_of, clusters.count(), options.node_order);
  clusters.sequence.reserve(clusters.cluster_of.size());
  for (int cluster = 0; cluster < clusters.count(); ++cluster) {
    for (const GlobalId id : builder.inner_ids(cluster)) {
      clusters.sequence.push_back(static_cast<std::int32_t>(to_index(id)));
    }
  }
  return clusters;
}

std::vector<std::int32_t> deal_clusters(int parts, int per_part, std::uint64_t seed, DealtTo to,
                                        int number) {
  const RandomKey key{seed, RandomStream::kPartition, static_cast<std::uint8_t>(to),
                      static_cast<std::uint32_t>(number)};
  const std::vector<std::int32_t> order = random_permutation(std::int64_t{parts} * per_part, key);
  const int each = to == DealtTo::kBlocks ? std::min(kDealtOfEachRun, per_part) : per_part;
  const int runs = (per_part + each - 1) / each;
  std::vector<std::int32_t> dealt(static_cast<std::size_t>(runs), 0);  // of each run
  std::vector<std::int32_t> part_of_cluster(order.size());
  for (const std::int32_t cluster : order) {
    const int run = cluster / (parts * each);
    const int of_this = std::min(each, per_part - run * each);
    part_of_cluster[cluster] = dealt[run]++ / of_this;
  }
  return part_of_cluster;
}

std::vector<std::int32_t> deal(const Clusters& clusters, std::uint64_t seed, int cut) {
  const std::vector<std::int32_t> part_of_cluster =
      deal_clusters(clusters.parts, clusters.per_part, seed, DealtTo::kParts, cut);
  std::vector<std::int32_t> part_of(clusters.cluster_of.size());
  std::ranges::transform(clusters.cluster_of, part_of.begin(),
                         [&](std::int32_t cluster) { return part_of_cluster[cluster]; });
  return part_of;
}

std::vector<float> relative_coverage(const LocalGraphView& part, const GraphView& graph,
                                     const Clusters& clusters) {
  // The probability that a cut deals two clusters to one part.
  const double meeting =
      clusters.count() == 1 ? 1 : (clusters.per_part - 1.0) / (clusters.count() - 1.0);
  const std::vector<std::int32_t>& cluster_of = clusters.cluster_of;
  std::vector<float> coverage(part.inner_ids.size());
  parallel_for(part.inner(), 1024, [&](std::int64_t i) {
    const std::int64_t v = to_index(part.inner_ids[i]);
    const auto sources = graph.in_edges.row(v);
    const auto always = static_cast<double>(std::ranges::count_if(
        sources, [&](std::int32_t u) { return cluster_of[u] == cluster_of[v]; }));
    const auto degree = static_cast<double>(sources.size());
    const auto inside = static_cast<double>(part.forward.split[i] - part.forward.csr.row_ptr[i]);
    coverage[i] = static_cast<float>((1 + inside) / (1 + always + meeting * (degree - always)));
  });
  return coverage;
}

}  // namespace atl
