#include "engine/placement/cut_candidates.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "engine/placement/epoch_tasks.hpp"
#include "engine/placement/simulator.hpp"
#include "partition/assignment.hpp"

namespace atl {

namespace {

// Blocks are alike but for chance, so counts of all of them are divided evenly.
PartitionQuality mean_block(PartitionQuality all, int blocks) {
  const auto divide = [&](std::int64_t& count) { count = (count + blocks / 2) / blocks; };
  for (PartQuality& part : all.parts) {
    for (std::int64_t PartQuality::*const count :
         {&PartQuality::nodes, &PartQuality::central, &PartQuality::edges,
          &PartQuality::marginal_edges, &PartQuality::training_nodes, &PartQuality::cost,
          &PartQuality::halo_forward, &PartQuality::halo_backward}) {
      divide(part.*count);
    }
    part.central = std::min(part.central, part.nodes);
  }
  divide(all.cut_edges);
  for (std::vector<std::int64_t>* const rows : {&all.forward_rows, &all.backward_rows}) {
    for (std::int64_t& count : *rows) divide(count);
  }
  // Blocks send rows, no partial sums.
  all.forward_cover = {};
  all.backward_cover = {};
  return all;
}

// Edges between nodes of one block, as stored.
Csr edges_inside(CsrView in_edges, const GraphBlocks& blocks) {
  const std::vector<std::int32_t>& block_of = blocks.of_node;
  Csr inside;
  inside.row_ptr.reserve(static_cast<std::size_t>(in_edges.rows()) + 1);
  for (std::int64_t i = 0; i < in_edges.rows(); ++i) {
    const std::int32_t own = block_of[static_cast<std::size_t>(i)];
    for (const std::int32_t source : in_edges.row(i)) {
      if (block_of[static_cast<std::size_t>(source)] == own) inside.col_idx.push_back(source);
    }
    inside.row_ptr.push_back(std::ssize(inside.col_idx));
  }
  return inside;
}

class CandidateMaker {
 public:
  CandidateMaker(const GraphView& graph, std::span<const std::uint8_t> split,
                 const Topology& topology, const ModelConfig& model,
                 const PhaseCorrections& corrections, const GraphBlocks& blocks)
      : graph_(graph),
        split_(split),
        topology_(topology),
        model_(model),
        corrections_(corrections),
        layers_(layers_without_plan(model)),
        blocks_(blocks) {
    if (blocks_.count > 0) inside_ = edges_inside(graph.in_edges, blocks);
  }

  CutCandidate cut(const std::string& name, const PartitionOptions& options) const {
    return measured(name, options, parts_of(options));
  }

  std::vector<std::int32_t> parts_of(const PartitionOptions& options) const {
    return partition_graph(graph_, topology_.ranks(), options, split_);
  }

  CutCandidate measured(const std::string& name, const PartitionOptions& options,
                        std::span<const std::int32_t> part_of) const {
    CutCandidate candidate{name, options, quality_of(graph_, options, part_of)};
    if (blocks_.count > 0) {
      // A node is in one block, so all blocks together have these messages.
      const GraphView inside{.in_edges = inside_.view(), .symmetric = graph_.symmetric};
      candidate.block = mean_block(quality_of(inside, options, part_of), blocks_.count);
      candidate.unevenness = unevenness_of(part_of);
    }
    return candidate;
  }

  // The same cut, whose parts are `part_of`, with its parts on the ranks where their rows cross the
  // fastest links. Shares stay with the parts that were cut for them.
  CutCandidate mapped(const std::string& name, const CutCandidate& candidate,
                      std::vector<std::int32_t> part_of) const {
    const int parts = topology_.ranks();
    std::vector<double> cost;
    for (int to = 0; to < parts; ++to) {
      for (int from = 0; from < parts; ++from) {
        cost.push_back(to == from ? 0 : row_seconds(from, to));
      }
    }
    const PartOrder best = best_part_order(candidate.of_step().forward_rows, cost, parts);
    PartitionOptions options = candidate.options;
    options.part_order = best.order;
    for (std::size_t r = 0; r < best.order.size(); ++r) {
      const auto from = static_cast<std::size_t>(best.order[r]);
      if (!options.weights.empty()) options.weights[r] = candidate.options.weights[from];
      // The cut may have been put in order already.
      if (!candidate.options.part_order.empty()) {
        options.part_order[r] = candidate.options.part_order[from];
      }
    }
    renumber_parts(best.order, part_of);
    return measured(name, options, part_of);
  }

  // Trial cuts only say how much each rank gets, which where exactly nodes lie matters little for.
  CutCandidate trial(PartitionOptions options) const {
    options.objective = PartitionObjective::kCut;
    options.refine = Refinement::kOff;
    options.cuts = 1;
    return cut("", options);
  }

  // Whether shares by speed are equal ones. That single parts take longer than others differs from
  // cut to cut: a trial says nothing of it.
  bool ranks_are_alike() const {
    constexpr double kProbed = 1.05;  // how exactly rates are known
    const auto alike = [&](const auto& rate) {
      const auto [least, most] = std::ranges::minmax(topology_.devices, {}, rate);
      return rate(most) <= kProbed * rate(least);
    };
    return alike([&](const Device& d) { return rate_at(d.spmm_bytes_per_s, model_.hidden); }) &&
           alike([&](const Device& d) { return rate_at(d.gemm_flop_per_s, model_.hidden); }) &&
           alike([](const Device& d) { return d.elementwise_bytes_per_s; });
  }

  // Whether an epoch takes clearly longer than with `other`, and also would on a faster network.
  bool is_worse(const CutCandidate& candidate, const CutCandidate& other) const {
    constexpr double kClearly = 1.05;
    return std::ranges::max(seconds_of(candidate)) >
               kClearly * std::ranges::max(seconds_of(other)) &&
           epoch_of(candidate) > kClearly * epoch_of(other);
  }

  // The trial cut whose shares let all ranks compute equally long. What a node costs depends on the
  // cut (marginal rows are packed, degrees vary) and rates on the sizes, so shares follow what the
  // last cut would take, a few times; the best of these cuts is kept.
  CutCandidate trial_by_speed(PartitionOptions options) const {
    constexpr int kCuts = 3;
    constexpr double kEven = 1.02;  // the slowest rank against the mean
    options.weights.clear();
    for (const Device& device : topology_.devices) {
      options.weights.push_back(rate_at(device.spmm_bytes_per_s, model_.hidden));
    }
    CutCandidate best;
    double best_s = 0;
    for (int round = 0; round < kCuts; ++round) {
      options.weights = rounded(options.weights);
      const CutCandidate candidate = trial(options);
      const std::vector<double> seconds = seconds_of(candidate);
      const double slowest = std::ranges::max(seconds);
      if (round == 0 || slowest < best_s) {
        best = candidate;
        best_s = slowest;
      }
      const double mean = mean_of(seconds);
      if (slowest < kEven * mean) break;
      for (std::size_t r = 0; r < seconds.size(); ++r) options.weights[r] *= mean / seconds[r];
    }
    return best;
  }

 private:
  // By what nodes and edges cost, and how fast ranks are.
  double unevenness_of(std::span<const std::int32_t> part_of) const {
    const auto parts = static_cast<std::size_t>(topology_.ranks());
    std::vector<double> rate;
    for (const Device& device : topology_.devices) {
      rate.push_back(rate_at(device.spmm_bytes_per_s, model_.hidden));
    }
    std::vector<double> seconds(static_cast<std::size_t>(blocks_.count) * parts, 0.0);  // about
    for (std::size_t i = 0; i < part_of.size(); ++i) {
      const auto part = static_cast<std::size_t>(part_of[i]);
      const std::int64_t edges = inside_.row_ptr[i + 1] - inside_.row_ptr[i];
      seconds[static_cast<std::size_t>(blocks_.of_node[i]) * parts + part] +=
          static_cast<double>(kNodeCost + edges) / rate[part];
    }
    double slowest = 0;  // of each block
    std::vector<double> all(parts, 0.0);
    for (auto block = seconds.begin(); block != seconds.end();
         block += static_cast<std::ptrdiff_t>(parts)) {
      const auto end = block + static_cast<std::ptrdiff_t>(parts);
      slowest += *std::max_element(block, end);
      std::transform(block, end, all.begin(), all.begin(), std::plus<>());
    }
    return slowest / std::ranges::max(all);
  }
  PartitionQuality quality_of(const GraphView& graph, const PartitionOptions& options,
                              std::span<const std::int32_t> part_of) const {
    const int parts = topology_.ranks();
    const LocalGraphBuilder builder(graph, part_of, parts);
    return measure_quality(builder, split_, normalised_shares(options.weights, parts));
  }
  std::vector<double> seconds_of(const CutCandidate& candidate) const {
    return computing_seconds(tasks_of(candidate));
  }
  double epoch_of(const CutCandidate& candidate) const {
    return Simulator(topology_, /*tolerance=*/0, corrections_.network_speed())
        .run(tasks_of(candidate))
        .makespan_s;
  }
  TaskGraph tasks_of(const CutCandidate& candidate) const {
    return epoch_tasks({.topology = topology_,
                        .model = model_,
                        .partition = candidate.of_step(),
                        .corrections = corrections_,
                        .whole = candidate.whole_beside_blocks()},
                       layers_, TaskDetail::kMerged);
  }
  static double mean_of(const std::vector<double>& seconds) {
    return std::accumulate(seconds.begin(), seconds.end(), 0.0) /
           static_cast<double>(seconds.size());
  }

  // A byte over a link that all pairs of two hosts share.
  double row_seconds(int from, int to) const {
    double rate = topology_.link(from, to).bytes_per_s;
    if (topology_.device(from).host != topology_.device(to).host) {
      rate = std::min({rate, topology_.host_of(from).send_bytes_per_s,
                       topology_.host_of(to).receive_bytes_per_s});
    }
    return 1 / rate;
  }

  // Shares of a few digits: they stand in plan.json and on command lines.
  static std::vector<double> rounded(std::vector<double> weights) {
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (double& weight : weights) weight = std::max(1.0, std::round(1000 * weight / sum)) / 1000;
    return weights;
  }

  const GraphView& graph_;
  std::span<const std::uint8_t> split_;
  const Topology& topology_;
  const ModelConfig& model_;
  const PhaseCorrections& corrections_;
  std::vector<LayerPlan> layers_;
  const GraphBlocks& blocks_;
  Csr inside_;  // edges inside of blocks
};

// Ranks of each island where they follow one another, as a cut by islands needs them; else empty.
std::vector<int> island_sizes(const Topology& topology) {
  std::vector<int> sizes;
  int last = -1;
  std::vector<int> seen;
  for (const Device& device : topology.devices) {
    if (device.island != last) {
      if (std::ranges::find(seen, device.island) != seen.end()) return {};
      seen.push_back(last = device.island);
      sizes.push_back(0);
    }
    ++sizes.back();
  }
  return sizes;
}

}  // namespace

CutCandidate default_cut(const GraphView& graph, std::span<const std::uint8_t> split,
                         const PartitionOptions& options, const Topology& topology,
                         const ModelConfig& model, const GraphBlocks& blocks) {
  const PhaseCorrections none;
  return CandidateMaker(graph, split, topology, model, none, blocks)
      .cut("as without a plan", options);
}

std::vector<CutCandidate> cut_candidates(const GraphView& graph,
                                         std::span<const std::uint8_t> split,
                                         const PartitionOptions& options, const Topology& topology,
                                         const ModelConfig& model,
                                         const PhaseCorrections& corrections,
                                         const GraphBlocks& blocks) {
  const CandidateMaker maker(graph, split, topology, model, corrections, blocks);
  std::vector<std::int32_t> part_of = maker.parts_of(options);
  std::vector<CutCandidate> candidates;
  candidates.push_back(maker.measured("as without a plan", options, part_of));
  if (topology.ranks() == 1) return candidates;
  const std::vector<int> islands = island_sizes(topology);
  const bool nested_links = islands.size() > 1 && std::ranges::max(islands) > 1;
  const auto add = [&](const std::string& name, PartitionOptions of, const CutCandidate& shares) {
    of.weights = shares.options.weights;
    candidates.push_back(maker.cut(name, of));
  };
  // A cut from a file is as it is; only where its parts go can be chosen.
  const bool made_here = options.method != "file";
  const bool has_speeds = made_here && !maker.ranks_are_alike();
  if (has_speeds) add("shares by speed", options, maker.trial_by_speed(options));
  if (made_here && nested_links) {
    PartitionOptions nested = options;
    nested.islands = islands;
    if (has_speeds) {
      const CutCandidate equal = maker.trial(nested);
      const CutCandidate by_speed = maker.trial_by_speed(nested);
      if (!maker.is_worse(equal, by_speed)) add("islands first", nested, equal);
      add("islands first, shares by speed", nested, by_speed);
    } else {
      candidates.push_back(maker.cut("islands first", nested));
    }
  }
  // Where all ranks are alike, the parts of a flat cut may also go anywhere.
  if (nested_links) {
    candidates.push_back(
        maker.mapped("best order of parts", candidates.front(), std::move(part_of)));
  }
  return candidates;
}

}  // namespace atl
