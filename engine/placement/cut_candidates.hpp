// Ways to cut a graph for a machine: the default, shares by how fast ranks are, islands first.
#pragma once

#include <string>
#include <vector>

#include "engine/placement/epoch_cost.hpp"
#include "partition/partitioner.hpp"

namespace atl {

struct CutCandidate {
  std::string name;
  PartitionOptions options;
  PartitionQuality quality;
};

// The first one is `options` as given: what training does without a plan. `split`: as for
// partition_graph. Cuts the graph several times: seconds for millions of edges.
std::vector<CutCandidate> cut_candidates(const GraphView& graph,
                                         std::span<const std::uint8_t> split,
                                         const PartitionOptions& options, const Topology& topology,
                                         const ModelConfig& model,
                                         const PhaseCorrections& corrections = {});

// Only the first of them: one cut.
CutCandidate default_cut(const GraphView& graph, std::span<const std::uint8_t> split,
                         const PartitionOptions& options, const Topology& topology,
                         const ModelConfig& model);

}  // namespace atl
