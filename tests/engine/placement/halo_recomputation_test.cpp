#include "engine/placement/halo_recomputation.hpp"

#include <gtest/gtest.h>

#include "tests/engine/placement/small_topology.hpp"

namespace atl {
namespace {

// Three parts of 100 nodes; each needs 10 rows of each other.
PartitionQuality three_parts() {
  PartitionQuality quality;
  quality.parts.assign(3, {.nodes = 100, .central = 60, .edges = 500, .marginal_edges = 200});
  quality.forward_rows = {0, 10, 10, 10, 0, 10, 10, 10, 0};
  quality.backward_rows = quality.forward_rows;
  return quality;
}

// 8 features, 16 hidden, 4 classes.
ModelConfig two_layers(OrderChoice second) {
  ModelConfig model;
  model.layers = 2;
  model.features = 8;
  model.hidden = 16;
  model.outputs = 4;
  model.algebra = {{MultiplyOrder::kAggregateFirst, true},
                   {second == OrderChoice::kMultiplyFirst ? MultiplyOrder::kMultiplyFirst
                                                          : MultiplyOrder::kAggregateFirst,
                    false}};
  return model;
}

TEST(HaloRecomputation, CountsWhatARowCosts) {
  const Topology topology = small_topology(1, 1, 1e6);  // all rates are 1e9 per s
  for (const OrderChoice second : {OrderChoice::kMultiplyFirst, OrderChoice::kAggregateFirst}) {
    const ModelConfig model = two_layers(second);
    ModelConfig recomputing = model;
    recomputing.recomputation = Recomputation::of_all_pairs(2);
    const double seconds =
        computing_halo_seconds(TrainingPrograms(recomputing), topology.devices[0], 10);
    const double first = 2 * 10 * 8 * 16 + 4 * 2 * 10 * 16;
    const double product = second == OrderChoice::kMultiplyFirst ? 2 * 10 * 16 * 4 : 0;
    EXPECT_NEAR(1e9 * seconds, first + product, 1e-6);
  }
}

// A row takes 2 * 8 * 16 + 4 * 2 * 16 = 384 ns to compute here, and travels as 64 bytes.
TEST(HaloRecomputation, ComputesRowsOfSlowLinks) {
  Topology topology = small_topology(3, 1, 1e9);
  const ModelConfig model = two_layers(OrderChoice::kAggregateFirst);
  const PartitionQuality parts = three_parts();
  const PhaseCorrections corrections;
  const EpochSetting setting{topology, model, parts, corrections};
  const std::vector<LayerPlan> layers = layers_without_plan(model);
  ProgramsByOrder programs(model, 3);
  for (Link& link : topology.links) link.bytes_per_s = 64.0 / 300 * 1e9;
  EXPECT_FALSE(recomputation_by_cost(setting, programs, layers).any());
  topology.links[2 * 3 + 0].bytes_per_s = 64.0 / 400 * 1e9;
  const Recomputation one = recomputation_by_cost(setting, programs, layers);
  for (int rank = 0; rank < 3; ++rank) {
    for (int owner = 0; owner < 3; ++owner) {
      EXPECT_EQ(one.computes(rank, owner), rank == 0 && owner == 2) << rank << " " << owner;
    }
  }
  // A slower device had better receive even those.
  topology.devices[0].gemm_flop_per_s.front().per_s /= 2;
  EXPECT_FALSE(recomputation_by_cost(setting, programs, layers).any());
  for (Link& link : topology.links) link.bytes_per_s = 1e6;
  EXPECT_EQ(recomputation_by_cost(setting, programs, layers), Recomputation::of_all_pairs(3));
}

// Pairs of ranks that keep rows send no cover of them in any layer. Where a cut has no covers,
// backward costs are the same, and searches simulate them once.
TEST(HaloRecomputation, ChangesWhatIsSentBackwardOnlyInPlaceOfCovers) {
  const Topology topology = small_topology(3, 1, 1e9);
  const ModelConfig model = two_layers(OrderChoice::kAggregateFirst);
  std::vector<LayerPlan> fetching = layers_without_plan(model);
  std::vector<LayerPlan> computing = fetching;
  computing[1].recomputation =
      std::make_shared<const Recomputation>(Recomputation::of_all_pairs(3));
  for (const bool covers : {false, true}) {
    PartitionQuality parts = three_parts();
    if (covers) {
      parts.forward_cover = {{0, 6, 6, 6, 0, 6, 6, 6, 0}, std::vector<std::int64_t>(9, 3)};
      parts.backward_cover = parts.forward_cover;
    }
    const EpochSetting setting{topology, model, parts, {}};
    ProgramsByOrder programs(model, 3);
    EpochCosts costs(topology, programs, setting.corrections);
    const auto backward = [&](std::span<const LayerPlan> layers) {
      std::vector<int> numbers;
      for (const int piece : costs.pieces(setting, 0, layers, 0)) {
        const std::vector<BlockCost>& blocks = costs.piece(piece).blocks;
        if (!blocks.empty() && blocks.front().place.backward) numbers.push_back(piece);
      }
      return numbers;
    };
    const std::vector<int> before = backward(fetching);
    EXPECT_FALSE(before.empty());
    EXPECT_EQ(backward(computing) == before, !covers);
  }
}

}  // namespace
}  // namespace atl
