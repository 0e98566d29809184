// The calls of every layer, forward and backward, in the order that hides messages: the table of
// the schedule as text.
#include "engine/program/schedule.hpp"

#include <gtest/gtest.h>

#include <map>

#include "engine/models/model.hpp"
#include "engine/program/operations/rules.hpp"

namespace atl {
namespace {

// A call as text: what it does, an "r" for a root weight, "+" if it adds to another value, "e" if a
// bias, norm or activation comes with it, and its rows: marginal, central, all, computed or placed.
//
//   L product          X gradient of its input     W gradient of its weight
//   S aggregate        T the same by S^T
//   M moments          N norm     e activation alone     I copy of the features
//   B sums of a bias   G sums of a norm     D gradient of its input     R activation's gradient
//   Z sum over ranks   s small operation   F fetch, K take, P place computed rows   Y loss
std::string letters_of(const Operation& op) {
  static const std::map<const Rule*, const char*> letters = {{&rules::kWeightGradient, "W"},
                                                             {&rules::kMoments, "M"},
                                                             {&rules::kLayerNorm, "N"},
                                                             {&rules::kNormalise, "N"},
                                                             {&rules::kActivate, ""},
                                                             {&rules::kCopy, "I"},
                                                             {&rules::kBiasGradient, "B"},
                                                             {&rules::kNormSums, "G"},
                                                             {&rules::kNormBackward, "D"},
                                                             {&rules::kLayerNormBackward, "D"},
                                                             {&rules::kActivateBackward, "R"},
                                                             {&rules::kSumRanks, "Z"},
                                                             {&rules::kSumGradients, "Z"},
                                                             {&rules::kStatistics, "s"},
                                                             {&rules::kInverseStd, "s"},
                                                             {&rules::kZeroGradients, "s"},
                                                             {&rules::kStep, "s"},
                                                             {&rules::kFetchComputed, "F"},
                                                             {&rules::kTakeComputed, "K"},
                                                             {&rules::kPlaceComputed, "P"},
                                                             {&rules::kLoss, "Y"}};
  if (op.is(rules::kLinear)) return op.as<Product>().transposed ? "X" : "L";
  if (op.is(rules::kAggregate)) {
    return op.messages.direction == Direction::kForward ? "S" : "T";
  }
  const auto found = letters.find(op.rule);
  if (found == letters.end()) return "?";
  return (op.decided.through != kNoValue ? "R" : "") + std::string(found->second);
}

std::string to_text(const Program& program, const Call& call) {
  const Operation& op = program.at(call.value);
  std::string text = letters_of(op);
  const bool of_root =
      op.parameter >= 0 && (text == "L" || text == "X" || text == "W") &&
      program.parameters[static_cast<std::size_t>(op.parameter)].name.ends_with("root_weight");
  if (of_root) text += "r";
  if (op.decided.added_to != kNoValue) text += "+";
  const bool forward = op.rule->has_rows && !op.is(rules::kActivateBackward);
  if (forward && !op.tail.absent()) text += "e";
  const Reach reach = op.rule->reach;
  if (reach == Reach::kSmall || reach == Reach::kRanks) return text;
  constexpr const char* kRows[] = {"(a)", "(m)", "(c)", "(x)", "(p)"};
  return text + kRows[static_cast<std::size_t>(call.rows.number)];
}

std::string to_text(const Program& program, std::span<const Block> blocks, const Scope& scope) {
  std::string text;
  const auto add = [&](const std::string& word) { text += (text.empty() ? "" : " ") + word; };
  for (const Block& block : blocks) {
    if (program.scopes[static_cast<std::size_t>(block.scope)] != scope) continue;
    for (const Call& call : block.calls) add(to_text(program, call));
    for (std::size_t i = 0; i < block.begins.size(); ++i) add("begin");
    for (std::size_t i = 0; i < block.finishes.size(); ++i) add("finish");
  }
  return text;
}

// A model with its training and evaluation as text.
class Scheduled {
 public:
  explicit Scheduled(const ModelConfig& config, Pass pass = Pass::kTraining)
      : program_(model_program(config, pass)), schedule_(atl::schedule(program_)) {}

  std::string layer(int index, Direction direction) const {
    return to_text(program_, schedule_.blocks, {Scope::Kind::kLayer, index, direction});
  }
  std::string forward(int index) const { return layer(index, Direction::kForward); }
  std::string backward(int index) const { return layer(index, Direction::kBackward); }
  std::string once(int index) const {
    return to_text(program_, schedule_.prologue, {Scope::Kind::kLayer, index, Direction::kForward});
  }
  std::string scope(Scope::Kind kind, int layer, Direction direction) const {
    return to_text(program_, schedule_.blocks, {kind, layer, direction});
  }

 private:
  Program program_;
  Schedule schedule_;
};

ModelConfig model(const std::string& kind, Norm norm, OrderChoice order, bool cache = true) {
  ModelConfig config;
  config.kind = kind;
  config.layers = 3;
  config.hidden = 16;
  config.features = 24;
  config.outputs = 5;
  config.norm = norm;
  config.order = order;
  config.cache_aggregate = cache;
  return config;
}

// The middle one of three layers, which has all there is.
struct LayerCase {
  const char* kind;
  Norm norm;
  OrderChoice order;
  const char* forward;
  const char* backward;
};

constexpr auto kMultiply = OrderChoice::kMultiplyFirst;
constexpr auto kAggregate = OrderChoice::kAggregateFirst;
constexpr LayerCase kLayers[] = {
    {"gcn", Norm::kNone, kMultiply,  //
     "L(m) begin L(c) Se(c) finish Se(m)",
     "RB(m) begin RB(c) T(c) W(c) X(c) finish T(m) W(m) X(m)"},
    {"gcn", Norm::kNone, kAggregate,  //
     "begin S(c) Le(c) finish S(m) Le(m)",
     "RB(m) X(m) begin W(m) RB(c) W(c) X(c) T(c) finish T(m)"},
    {"gcn", Norm::kLayer, kMultiply,  //
     "L(m) begin L(c) S(c) N(c) e(c) finish S(m) N(m) e(m)",
     "R(m) D(m) begin R(c) D(c) T(c) W(c) X(c) finish T(m) W(m) X(m)"},
    {"gcn", Norm::kLayer, kAggregate, "begin S(c) L(c) N(c) e(c) finish S(m) L(m) N(m) e(m)",
     "R(m) D(m) X(m) begin W(m) R(c) D(c) W(c) X(c) T(c) finish T(m)"},
    {"gcn", Norm::kBatch, kMultiply, "L(m) begin L(c) S(c) finish S(m) M(a) Z s Ne(a)",
     "RG(a) Z D(m) begin D(c) T(c) W(c) X(c) finish T(m) W(m) X(m)"},
    {"gcn", Norm::kBatch, kAggregate, "begin S(c) L(c) finish S(m) L(m) M(a) Z s Ne(a)",
     "RG(a) Z D(m) X(m) begin W(m) D(c) W(c) X(c) T(c) finish T(m)"},
    {"sage", Norm::kNone, kMultiply, "L(m) begin Lr(m) L(c) Lr(c) S+e(c) finish S+e(m)",
     "RB(m) begin Wr(m) RB(c) Wr(c) T(c) W(c) X(c) Xr+(c) finish T(m) W(m) X(m) Xr+(m)"},
    {"sage", Norm::kNone, kAggregate, "begin S(c) L(c) Lr+e(c) finish S(m) L(m) Lr+e(m)",
     "RB(m) X(m) begin Wr(m) W(m) RB(c) Wr(c) W(c) X(c) T(c) Xr+(c) finish T(m) Xr+(m)"},
    {"sage", Norm::kLayer, kMultiply,
     "L(m) begin Lr(m) L(c) Lr(c) S+(c) N(c) e(c) finish S+(m) N(m) e(m)",
     "R(m) D(m) begin Wr(m) R(c) D(c) Wr(c) T(c) W(c) X(c) Xr+(c) finish T(m) W(m) X(m) Xr+(m)"},
    {"sage", Norm::kLayer, kAggregate,
     "begin S(c) L(c) Lr+(c) N(c) e(c) finish S(m) L(m) Lr+(m) N(m) e(m)",
     "R(m) D(m) X(m) begin Wr(m) W(m) R(c) D(c) Wr(c) W(c) X(c) T(c) Xr+(c) finish T(m) Xr+(m)"},
    {"sage", Norm::kBatch, kMultiply,
     "L(m) begin Lr(m) L(c) Lr(c) S+(c) finish S+(m) M(a) Z s Ne(a)",
     "RG(a) Z D(m) begin Wr(m) D(c) Wr(c) T(c) W(c) X(c) Xr+(c) finish T(m) W(m) X(m) Xr+(m)"},
    {"sage", Norm::kBatch, kAggregate,
     "begin S(c) L(c) Lr+(c) finish S(m) L(m) Lr+(m) M(a) Z s Ne(a)",
     "RG(a) Z D(m) X(m) begin Wr(m) W(m) D(c) Wr(c) W(c) X(c) T(c) Xr+(c) finish T(m) Xr+(m)"},
};

TEST(Schedule, OfAMiddleLayer) {
  for (const LayerCase& expected : kLayers) {
    const Scheduled found(model(expected.kind, expected.norm, expected.order));
    SCOPED_TRACE(fmt::format("{}, norm {}, {}", expected.kind, to_string(expected.norm),
                             expected.order == kMultiply ? "multiply first" : "aggregate first"));
    EXPECT_EQ(found.forward(1), expected.forward);
    EXPECT_EQ(found.backward(1), expected.backward);
  }
}

TEST(Schedule, TheLastLayerHasABiasAlone) {
  const Scheduled gcn(model("gcn", Norm::kBatch, kMultiply));
  EXPECT_EQ(gcn.forward(2), "L(m) begin L(c) Se(c) finish Se(m)");
  EXPECT_EQ(gcn.backward(2), "begin B(m) B(c) T(c) W(c) X(c) finish T(m) W(m) X(m)");
  const Scheduled sage(model("sage", Norm::kLayer, kAggregate));
  EXPECT_EQ(sage.forward(2), "begin S(c) L(c) Lr+e(c) finish S(m) L(m) Lr+e(m)");
  EXPECT_EQ(sage.backward(2),
            "X(m) begin B(m) Wr(m) W(m) B(c) Wr(c) W(c) X(c) T(c) Xr+(c) finish T(m) Xr+(m)");
}

// Its input has no gradient, so that backward, aggregated first, it needs no messages.
TEST(Schedule, OfTheFirstLayer) {
  for (const bool cache : {true, false}) {
    for (const Norm norm : {Norm::kNone, Norm::kLayer, Norm::kBatch}) {
      SCOPED_TRACE(fmt::format("norm {}, cache {}", to_string(norm), cache));
      const std::string tail = norm == Norm::kNone    ? "RB(a)"
                               : norm == Norm::kLayer ? "R(a) D(a)"
                                                      : "RG(a) Z D(a)";
      EXPECT_EQ(Scheduled(model("gcn", norm, kAggregate, cache)).backward(0), tail + " W(a)");
      EXPECT_EQ(Scheduled(model("sage", norm, kAggregate, cache)).backward(0),
                tail + " Wr(a) W(a)");
    }
  }
  EXPECT_EQ(Scheduled(model("gcn", Norm::kNone, kMultiply)).backward(0),
            "RB(m) begin RB(c) T(c) W(c) finish T(m) W(m)");
  EXPECT_EQ(Scheduled(model("sage", Norm::kBatch, kMultiply)).backward(0),
            "RG(a) Z D(m) begin Wr(m) D(c) Wr(c) T(c) W(c) finish T(m) W(m)");
}

// A kept aggregate is made once, with all it needs; what follows is one call over all rows.
TEST(Schedule, OfAKeptAggregate) {
  const Scheduled kept(model("gcn", Norm::kNone, kAggregate));
  EXPECT_EQ(kept.once(0), "I(m) begin I(c) S(c) finish S(m)");
  EXPECT_EQ(kept.forward(0), "Le(a)");
  EXPECT_EQ(kept.once(1), "");
  EXPECT_EQ(Scheduled(model("sage", Norm::kNone, kAggregate)).forward(0), "L(a) Lr+e(a)");
  EXPECT_EQ(Scheduled(model("gcn", Norm::kLayer, kAggregate)).forward(0), "L(a) N(a) e(a)");
  EXPECT_EQ(Scheduled(model("gcn", Norm::kBatch, kAggregate)).forward(0), "L(a) M(a) Z s Ne(a)");

  // Without a kept aggregate only the features' copy is constant.
  const Scheduled renewed(model("gcn", Norm::kNone, kAggregate, /*cache=*/false));
  EXPECT_EQ(renewed.once(0), "I(a)");
  EXPECT_EQ(renewed.forward(0), "begin S(c) Le(c) finish S(m) Le(m)");

  // Multiply-first reads the features where they lie.
  const Scheduled multiplied(model("gcn", Norm::kNone, kMultiply));
  EXPECT_EQ(multiplied.once(0), "");
  EXPECT_EQ(multiplied.forward(0), "L(m) begin L(c) Se(c) finish Se(m)");
}

TEST(Schedule, OfInputDropout) {
  ModelConfig config = model("gcn", Norm::kNone, kAggregate);
  config.input_dropout = 0.5;
  const Scheduled training(config);
  EXPECT_EQ(training.scope(Scope::Kind::kInput, 0, Direction::kForward), "e(a)");
  EXPECT_EQ(training.once(0), "");
  EXPECT_EQ(training.forward(0), "begin S(c) Le(c) finish S(m) Le(m)");
  EXPECT_EQ(training.scope(Scope::Kind::kInput, 0, Direction::kBackward), "");
  const Scheduled evaluation(config, Pass::kEvaluation);
  EXPECT_EQ(evaluation.forward(0), "I(m) begin I(c) S(c) Le(c) finish S(m) Le(m)");
}

// By running statistics a batch norm is part of what is before it.
TEST(Schedule, OfEvaluation) {
  for (const Norm norm : {Norm::kNone, Norm::kBatch}) {
    const std::string first = norm == Norm::kBatch ? "s " : "";
    EXPECT_EQ(Scheduled(model("gcn", norm, kMultiply), Pass::kEvaluation).forward(1),
              first + "L(m) begin L(c) Se(c) finish Se(m)");
    EXPECT_EQ(Scheduled(model("sage", norm, kAggregate), Pass::kEvaluation).forward(1),
              first + "begin S(c) L(c) Lr+e(c) finish S(m) L(m) Lr+e(m)");
  }
  EXPECT_EQ(Scheduled(model("gcn", Norm::kLayer, kMultiply), Pass::kEvaluation).forward(1),
            "L(m) begin L(c) S(c) N(c) e(c) finish S(m) N(m) e(m)");
  const Scheduled evaluation(model("gcn", Norm::kBatch, kMultiply), Pass::kEvaluation);
  EXPECT_EQ(evaluation.backward(1), "");
  EXPECT_EQ(evaluation.scope(Scope::Kind::kLoss, -1, Direction::kBackward), "");
}

TEST(Schedule, OfLossAndStep) {
  const Scheduled found(model("gcn", Norm::kNone, kMultiply));
  EXPECT_EQ(found.scope(Scope::Kind::kLoss, -1, Direction::kBackward), "s Y(a)");
  EXPECT_EQ(found.scope(Scope::Kind::kStep, -1, Direction::kBackward), "Z s");
}

// Rows that are computed instead of fetched come last in the first layer; the product of the second
// runs on them while messages travel.
TEST(Schedule, OfComputedHaloRows) {
  for (const Norm norm : {Norm::kNone, Norm::kLayer, Norm::kBatch}) {
    SCOPED_TRACE(to_string(norm));
    ModelConfig config = model("sage", norm, kAggregate);
    config.algebra = {{MultiplyOrder::kAggregateFirst, true},
                      {MultiplyOrder::kMultiplyFirst, false},
                      {MultiplyOrder::kMultiplyFirst, false}};
    config.recomputation = Recomputation::of_all_pairs(2);
    const Scheduled sage(config);
    EXPECT_EQ(sage.once(0), "I(m) begin I(c) S(c) finish S(m) F(a) K(a)");
    const std::string middle = norm == Norm::kNone    ? "L(a) Lr+e(a) L(x) Lr+e(x) P(x)"
                               : norm == Norm::kLayer ? "L(a) Lr+(a) N(a) e(a) "
                                                        "L(x) Lr+(x) N(x) e(x) P(x)"
                                                      : "L(a) Lr+(a) M(a) Z s Ne(a) "
                                                        "L(x) Lr+(x) Ne(x) P(x)";
    EXPECT_EQ(sage.forward(0), middle);
    const std::string second = sage.forward(1);
    EXPECT_TRUE(second.starts_with("L(m) begin Lr(m) L(c) Lr(c) L(p) S+")) << second;
    config.algebra[1].order = MultiplyOrder::kAggregateFirst;
    EXPECT_TRUE(Scheduled(config).forward(1).starts_with("begin S(c) L(c) "));
  }
}

// Blocks are spans of a trace; around messages all of them are there, with or without calls.
TEST(Schedule, NamesSpans) {
  const Program program = model_program(model("gcn", Norm::kBatch, kAggregate), Pass::kTraining);
  const Schedule found = schedule(program);
  const auto names = [&](int layer, Direction direction) {
    std::vector<std::string> list;
    for (const Block& block : found.blocks) {
      const Scope wanted{Scope::Kind::kLayer, layer, direction};
      if (program.scopes[static_cast<std::size_t>(block.scope)] != wanted) continue;
      if (block.name != nullptr) list.emplace_back(block.name);
    }
    return fmt::format("{}", fmt::join(list, ", "));
  };
  EXPECT_EQ(names(1, Direction::kForward),
            "prepare marginal, prepare central, spmm central, complete central, spmm marginal, "
            "complete marginal, norm statistics, norm apply");
  EXPECT_EQ(names(1, Direction::kBackward),
            "norm statistics, prepare marginal, prepare central, spmm central, complete central, "
            "spmm marginal, complete marginal");
  EXPECT_EQ(names(0, Direction::kForward), "complete central, norm statistics, norm apply");
  EXPECT_EQ(names(0, Direction::kBackward), "norm statistics, prepare central");
}

// Every operation but leaves is run, and nothing twice on the same rows.
TEST(Schedule, RunsEveryRowOfEveryOperationOnce) {
  for (const std::string kind : {"gcn", "sage"}) {
    for (const Norm norm : {Norm::kNone, Norm::kLayer, Norm::kBatch}) {
      for (const auto order : {OrderChoice::kAuto, kMultiply, kAggregate}) {
        const Program program = model_program(model(kind, norm, order), Pass::kTraining);
        const Schedule found = schedule(program);
        std::vector<std::vector<Rows>> rows(program.operations.size());
        for (const auto* blocks : {&found.prologue, &found.blocks}) {
          for (const Block& block : *blocks) {
            for (const Call& call : block.calls) {
              rows[static_cast<std::size_t>(call.value)].push_back(call.rows);
            }
          }
        }
        for (Value v = 0; v < program.size(); ++v) {
          std::vector<Rows>& ran = rows[static_cast<std::size_t>(v)];
          std::ranges::sort(ran);
          const bool leaf = program.at(v).rule->is_leaf;
          const bool whole = ran == std::vector{Rows::kAll};
          const bool halves = ran == std::vector{Rows::kMarginal, Rows::kCentral};
          EXPECT_TRUE(leaf ? ran.empty() : whole || halves) << to_string(program, v);
        }
      }
    }
  }
}

}  // namespace
}  // namespace atl
