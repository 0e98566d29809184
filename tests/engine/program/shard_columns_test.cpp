// Where rows of a group become columns and back, and where not.
#include "engine/program/shard_columns.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.hpp"
#include "engine/exchange/rank_map.hpp"
#include "engine/models/model.hpp"
#include "engine/program/operations/rules.hpp"
#include "engine/program/schedule.hpp"

namespace atl {
namespace {

ModelConfig sharded_model(const std::string& kind, int ranks = 2, int role = 0) {
  ModelConfig config;
  config.kind = kind;
  config.layers = 2;
  config.hidden = 24;
  config.features = 12;
  config.outputs = 4;
  config.hops = 10;
  config.dropout = 0;
  config.column_share = {role, ranks};
  return config;
}

// Conversions of each pass: those of constants are made once.
std::pair<int, int> conversions(const ModelConfig& config, Pass pass) {
  const Program program = model_program(config, pass);
  std::pair<int, int> counts;
  for (const Operation& op : program.operations) {
    if (op.constant) continue;
    counts.first += op.is(rules::kToColumns) ? 1 : 0;
    counts.second += op.is(rules::kToRows) ? 1 : 0;
  }
  return counts;
}

TEST(ColumnSlice, IsWholeUnitsOfPadding) {
  for (const std::int64_t columns : {1, 7, 8, 9, 43, 256}) {
    for (const int roles : {1, 2, 3, 5}) {
      std::int64_t next = 0;
      std::int64_t padded = 0;
      for (int role = 0; role < roles; ++role) {
        const ColumnRange slice = column_slice(columns, role, roles);
        EXPECT_EQ(slice.first % kColumnPadding, 0);
        if (slice.count > 0) {
          EXPECT_EQ(slice.first, next);
        }
        next += slice.count;
        padded += padded_columns(slice.count);
      }
      EXPECT_EQ(next, columns) << roles;
      EXPECT_EQ(padded, padded_columns(columns)) << roles;
    }
  }
}

TEST(ShardColumns, ConvertsAroundEachAggregate) {
  // The first layer keeps its aggregate, whose input is constant.
  EXPECT_EQ(conversions(sharded_model("gcn"), Pass::kEvaluation), std::pair(1, 1));
  EXPECT_EQ(conversions(sharded_model("gcn"), Pass::kTraining), std::pair(2, 2));
  EXPECT_EQ(conversions(sharded_model("mlp"), Pass::kTraining), std::pair(0, 0));
  EXPECT_EQ(conversions(sharded_model("gcn", 1), Pass::kTraining), std::pair(0, 0));
}

// One pair each way, not one for each of ten hops.
TEST(ShardColumns, HopsStayInColumns) {
  EXPECT_EQ(conversions(sharded_model("appnp"), Pass::kTraining), std::pair(2, 2));
}

// Means of several relations lie side by side, with a slice of each.
TEST(ShardColumns, RelationsHaveASliceEach) {
  ModelConfig config = sharded_model("rgcn", 3, 2);
  config.relations = 5;
  const Program program = model_program(config, Pass::kTraining);
  bool found = false;
  for (const Operation& op : program.operations) {
    if (!op.is(rules::kAggregateRelations) || op.constant) continue;
    found = true;
    EXPECT_EQ(op.columns, 5 * 8);
    EXPECT_EQ(op.message_columns(), 8);
  }
  EXPECT_TRUE(found);
}

// Scores are made of the heads that a rank has, so they are never converted.
TEST(ShardColumns, AttentionHasWholeHeads) {
  ModelConfig config = sharded_model("gat", 2, 1);
  config.heads = config.output_heads = 4;
  config.hidden = 20;
  const Program program = model_program(config, Pass::kTraining);
  for (const Operation& op : program.operations) {
    if (op.is(rules::kAttend)) {
      EXPECT_EQ(op.as<AttentionOptions>().heads, 2);
      EXPECT_EQ(op.first_head, 2);
      EXPECT_EQ(op.heads_read, 2);
      EXPECT_TRUE(op.columns == 10 || op.columns == 8) << op.columns;
    }
    if (op.is(rules::kHeadDots)) {
      EXPECT_EQ(op.columns, 2);
    }
  }
  // Rows of z and sums of their neighbours, of each of two layers, and the gradients of both.
  EXPECT_EQ(conversions(config, Pass::kEvaluation), std::pair(2, 2));
  EXPECT_EQ(conversions(config, Pass::kTraining), std::pair(4, 4));
}

TEST(ShardColumns, HeadsThatCannotBeDividedEvenlyAreThoseOfTheFirstRanks) {
  for (const int role : {0, 1, 2}) {
    ModelConfig config = sharded_model("gat", 3, role);
    config.heads = 2;
    const Program program = model_program(config, Pass::kTraining);
    int layers = 0;
    for (const Operation& op : program.operations) {
      if (!op.is(rules::kAttend)) continue;
      const int heads = layers++ == 0 ? 2 : 1;
      EXPECT_EQ(op.heads_read, role < heads ? 1 : 0);
      EXPECT_EQ(op.columns, role < heads ? (heads == 2 ? 12 : 4) : 0);
    }
    EXPECT_EQ(layers, 2);
  }
}

TEST(ShardColumns, RefuseOperationsThatMayNeedMoreThanASlice) {
  Rule own = rules::kAggregate;
  own.name = "sum of my own";
  Program program;
  program.scopes.emplace_back();
  program.append_unchanged({.rule = &rules::kFeatures, .columns = 12});
  program.append_unchanged({.rule = &own, .inputs = {0}, .columns = 12});
  try {
    shard_columns(program, {0, 2});
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kOption);
    EXPECT_NE(std::string(error.what()).find("--group-ranks 2: layer"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("('sum of my own')"), std::string::npos);
  }
}

// Each rank reads the columns of the weight that its own columns need.
TEST(ShardColumns, WeightsOfEdgesAreReadByColumns) {
  ModelConfig config = sharded_model("gine", 3, 1);
  config.edge_features = 5;
  config.outputs = 40;
  const Program program = model_program(config, Pass::kTraining);
  int gradients = 0;
  for (const Operation& op : program.operations) {
    const bool is_gradient = op.is(rules::kEdgesTerms);
    if (!is_gradient && !op.is(rules::kAggregateEdges)) continue;
    gradients += is_gradient ? 1 : 0;
    // 12 columns of the first layer, 24 of the second.
    EXPECT_EQ(op.first_column, 8);
    EXPECT_EQ(op.columns_read, op.columns);
    EXPECT_EQ(op.columns, program.scope_of(op.inputs[0]).layer == 0 || op.columns == 4 ? 4 : 8);
  }
  EXPECT_EQ(gradients, 2);
}

// Scores of edges are those of a rank's heads, and never converted.
TEST(ShardColumns, ScoresOfEdgesAreThoseOfARanksHeads) {
  for (const char* kind : {"gat", "gatv2"}) {
    ModelConfig config = sharded_model(kind, 2, 1);
    config.heads = config.output_heads = 4;
    config.edge_features = 5;
    config.edge_scores = true;
    const Program program = model_program(config, Pass::kTraining);
    int found = 0;
    for (const Operation& op : program.operations) {
      const bool is_product = op.is(rules::kEdgeScores) || op.is(rules::kEdgeScoresGradient);
      if (!is_product && op.second_parameter < 0) continue;
      ++found;
      EXPECT_EQ(op.first_column, op.columns) << op.rule->name;
      EXPECT_EQ(op.columns_read, op.columns) << op.rule->name;
    }
    EXPECT_GE(found, 4) << kind;
    const int own = kind == std::string("gat") ? 4 : 6;
    EXPECT_EQ(conversions(config, Pass::kTraining), std::pair(own, own)) << kind;
  }
}

// Dropout draws by the number of a head among all, of scores without parameters, too.
TEST(ShardColumns, HeadsKeepTheirNumbers) {
  ModelConfig config = sharded_model("dot", 2, 1);
  config.heads = config.output_heads = 4;
  config.attention_dropout = 0.5;
  const Program program = model_program(config, Pass::kTraining);
  int found = 0;
  for (const Operation& op : program.operations) {
    const auto* options = std::get_if<AttentionOptions>(&op.attributes);
    if (options == nullptr || options->dropout == 0) continue;
    ++found;
    EXPECT_EQ(op.first_head, 2) << op.rule->name;
  }
  EXPECT_GE(found, 6);
}

// A skip would have to become columns, too, so that the sum could stay in them.
TEST(ShardColumns, SumsThatOnlyRowsReadAreOfRows) {
  EXPECT_EQ(conversions(sharded_model("gcnii"), Pass::kEvaluation), std::pair(2, 2));
}

TEST(ShardColumns, RanksOfAGroupHaveTheSameScheduleAndTheirOwnColumns) {
  const Program first = model_program(sharded_model("gcn", 3, 0), Pass::kTraining);
  const Program last = model_program(sharded_model("gcn", 3, 2), Pass::kTraining);
  ASSERT_EQ(first.size(), last.size());
  const Schedule schedules[] = {schedule(first), schedule(last)};
  ASSERT_EQ(schedules[0].blocks.size(), schedules[1].blocks.size());
  for (std::size_t b = 0; b < schedules[0].blocks.size(); ++b) {
    EXPECT_EQ(schedules[0].blocks[b].calls, schedules[1].blocks[b].calls) << b;
  }
  std::int64_t columns[] = {0, 0};
  for (Value v = 0; v < first.size(); ++v) {
    if (!first.at(v).is(rules::kToColumns)) continue;
    columns[0] += first.at(v).columns;
    columns[1] += last.at(v).columns;
  }
  // 24, 4 and, once, 12 columns: the first rank has 16, 4 and 8 of them, the last 8, 0 and 4.
  EXPECT_GT(columns[0], columns[1]);
}

// Marginal rows first, so that messages set out while the others are converted; central rows of the
// result before messages are waited for.
TEST(ShardColumns, ConversionsHideTheWire) {
  const Program program = model_program(sharded_model("gcn"), Pass::kEvaluation);
  const Schedule order = schedule(program);
  std::vector<std::string> steps;
  for (const Block& block : order.blocks) {
    for (const Call& call : block.calls) {
      const Rule& rule = *program.at(call.value).rule;
      const bool counts = rule.reach == Reach::kGroup || rule.reach == Reach::kHalo;
      if (!counts) continue;
      steps.push_back(std::string(rule.name) + (call.rows == Rows::kMarginal  ? " marginal"
                                                : call.rows == Rows::kCentral ? " central"
                                                                              : " all"));
    }
    if (!block.begins.empty()) steps.emplace_back("begin");
    if (!block.finishes.empty()) steps.emplace_back("finish");
  }
  EXPECT_EQ(steps, (std::vector<std::string>{"to columns marginal", "begin", "to columns central",
                                             "aggregate central", "to rows central", "finish",
                                             "aggregate marginal", "to rows marginal"}));
}

}  // namespace
}  // namespace atl
