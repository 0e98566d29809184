// How layers are divided among stages, and what these send each other.
#include "engine/program/stages.hpp"

#include <gtest/gtest.h>

#include <map>

#include "base/error.hpp"
#include "engine/models/model.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

Program program_in_stages(const std::string& kind, int layers, Jump jump = Jump::kLast) {
  ModelConfig config;
  config.kind = kind;
  config.layers = layers;
  config.hidden = 64;
  config.features = 64;
  config.outputs = 64;
  config.norm = Norm::kLayer;
  config.jump = jump;
  return model_program(config, Pass::kTraining);
}

RankShape shape() { return {.rows = {.inner = 1000, .edges = 10000}}; }

std::map<std::pair<int, int>, int> counts_of(const std::vector<Crossing>& crossings) {
  std::map<std::pair<int, int>, int> counts;
  for (const Crossing& crossing : crossings) ++counts[{crossing.from, crossing.to}];
  return counts;
}

using Counts = std::map<std::pair<int, int>, int>;

TEST(StageCut, GivesStagesLayersOfLikeWork) {
  const Program program = program_in_stages("gcnii", 12);
  const StageCut cut = cut_into_stages(program, shape(), DType::kF32, 4);
  ASSERT_EQ(cut.stages(), 4);
  EXPECT_EQ(cut.first_layer.front(), 0);
  for (int stage = 0; stage < 4; ++stage) {
    const int end = stage < 3 ? cut.first_layer[static_cast<std::size_t>(stage) + 1] : 12;
    const int layers = end - cut.first_layer[static_cast<std::size_t>(stage)];
    EXPECT_GE(layers, 2) << stage;
    EXPECT_LE(layers, 4) << stage;
  }
  EXPECT_EQ(cut.stage_of(0), 0);
  EXPECT_EQ(cut.stage_of(11), 3);
  for (int layer = 1; layer < 12; ++layer) EXPECT_GE(cut.stage_of(layer), cut.stage_of(layer - 1));
}

TEST(StageCut, HasALayerForEveryStageAndNoMoreStages) {
  const Program program = program_in_stages("gcn", 3);
  EXPECT_EQ(cut_into_stages(program, shape(), DType::kF32, 3).first_layer,
            (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(cut_into_stages(program, shape(), DType::kF32, 1).first_layer, std::vector<int>{0});
  const Error error = thrown_error([&] { cut_into_stages(program, shape(), DType::kF32, 4); });
  EXPECT_STREQ(error.what(),
               "--stages: 4 ranks, and the model has 3 layers, of which each stage needs one; "
               "allowed are 1 to 3 ranks");
}

TEST(Crossings, OfAChainAreOneMatrixEachWay) {
  const Program program = program_in_stages("gcn", 4);
  const StageCut cut{{0, 2, 3}};
  const Crossings crossings = find_crossings(program, cut);
  EXPECT_EQ(counts_of(crossings.forward), (Counts{{{0, 1}, 1}, {{1, 2}, 1}}));
  EXPECT_EQ(counts_of(crossings.backward), (Counts{{{1, 0}, 1}, {{2, 1}, 1}}));
}

// Its layers read the first row, which each stage computes for itself, and its gradient, too.
TEST(Crossings, OfGcniiLeaveOutTheInput) {
  const Program program = program_in_stages("gcnii", 4);
  const Crossings crossings = find_crossings(program, {{0, 2}});
  EXPECT_EQ(counts_of(crossings.forward), (Counts{{{0, 1}, 1}}));
  EXPECT_EQ(counts_of(crossings.backward), (Counts{{{1, 0}, 1}}));
}

TEST(Crossings, GoPastStagesThatReadNothingOfThem) {
  const Program program = program_in_stages("gcn", 3, Jump::kConcatenate);
  const Crossings crossings = find_crossings(program, {{0, 1, 2}});
  EXPECT_EQ(counts_of(crossings.forward), (Counts{{{0, 1}, 1}, {{0, 2}, 1}, {{1, 2}, 1}}));
  // Gradients of a layer's output are added up on the way.
  EXPECT_EQ(counts_of(crossings.backward), (Counts{{{1, 0}, 1}, {{2, 1}, 2}}));
}

TEST(Stage, RunsEveryOperationOnOneStageButTheInputAndTheStep) {
  const Program program = program_in_stages("gcnii", 6);
  const StageCut cut{{0, 2, 4}};
  std::map<Value, int> runs;
  for (int stage = 0; stage < 3; ++stage) {
    const Stage of = make_stage(program, cut, find_crossings(program, cut), stage);
    for (const auto* half : {&of.forward, &of.loss, &of.backward, &of.input_backward, &of.step}) {
      for (const Value v : *half) ++runs[v];
    }
  }
  for (Value v = 0; v < program.size(); ++v) {
    const Operation& op = program.at(v);
    if (op.rule->is_leaf || op.constant) continue;
    const Scope& scope = program.scope_of(v);
    const bool may_repeat =
        scope.kind == Scope::Kind::kStep || !op.has_rows() || scope.kind == Scope::Kind::kInput;
    EXPECT_GE(runs[v], 1) << to_string(program, v);
    if (!may_repeat) EXPECT_EQ(runs[v], 1) << to_string(program, v);
  }
}

TEST(Chunks, HaveAllRowsAndLikeWork) {
  std::vector<std::int64_t> row_ptr{0};
  for (int row = 0; row < 1000; ++row) row_ptr.push_back(row_ptr.back() + (row < 100 ? 500 : 5));
  const std::vector<std::int32_t> columns(static_cast<std::size_t>(row_ptr.back()), 0);
  const auto ends = chunks_of_rows({.row_ptr = row_ptr, .col_idx = columns}, 4);
  ASSERT_EQ(ends.size(), 4U);
  EXPECT_EQ(ends.back(), 1000);
  EXPECT_LT(ends.front(), 100);  // rows with many edges
  EXPECT_TRUE(std::ranges::is_sorted(ends));
  EXPECT_EQ(chunks_of_rows({.row_ptr = row_ptr, .col_idx = columns}, 1),
            std::vector<std::int64_t>{1000});
}

}  // namespace
}  // namespace atl
