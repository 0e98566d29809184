// Ways to cut a graph for a machine: the default, shares by how fast ranks are, islands first.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/placement/epoch_cost.hpp"
#include "partition/partitioner.hpp"

namespace atl {

struct CutCandidate {
  std::string name;
  PartitionOptions options;
  PartitionQuality quality;
  // The mean one, where training is on blocks: `quality` is the whole graph's then.
  std::optional<PartitionQuality> block = {};
  // A step on a block takes so many times as long as on the mean one: a rank may have more of a
  // block than of others, and all wait for it.
  double unevenness = 1;

  // That a step of training sees.
  const PartitionQuality& of_step() const { return block ? *block : quality; }
  const PartitionQuality* whole_beside_blocks() const { return block ? &quality : nullptr; }
};

// The blocks of an epoch, and that of each node, from 0; none: training is on the whole graph.
struct GraphBlocks {
  int count = 0;
  std::vector<std::int32_t> of_node = {};
};

// The first one is `options` as given: what training does without a plan. `split`: as for
// partition_graph. Cuts the graph several times: seconds for millions of edges.
std::vector<CutCandidate> cut_candidates(const GraphView& graph,
                                         std::span<const std::uint8_t> split,
                                         const PartitionOptions& options, const Topology& topology,
                                         const ModelConfig& model,
                                         const PhaseCorrections& corrections = {},
                                         const GraphBlocks& blocks = {});

// Only the first of them: one cut.
CutCandidate default_cut(const GraphView& graph, std::span<const std::uint8_t> split,
                         const PartitionOptions& options, const Topology& topology,
                         const ModelConfig& model, const GraphBlocks& blocks = {});

}  // namespace atl
