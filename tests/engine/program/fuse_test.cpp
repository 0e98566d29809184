// Which operations become one, which stay apart, and which of two terms adds to the other.
#include "engine/program/fuse.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/models/convolutions.hpp"
#include "engine/program/differentiate.hpp"
#include "engine/program/operations/rules.hpp"

namespace atl {
namespace {

constexpr LayerAlgebra kMultiplyFirst{MultiplyOrder::kMultiplyFirst, false};
constexpr LayerAlgebra kAggregateFirst{MultiplyOrder::kAggregateFirst, false};
constexpr ActivationFunction kCurved[] = {ActivationFunction::kLeakyRelu, ActivationFunction::kElu,
                                          ActivationFunction::kGelu};
constexpr LayerAlgebra kKept{MultiplyOrder::kAggregateFirst, true};

using Lines = std::vector<std::string>;

// A model of one layer: `layer` says what it does to its input.
template <typename Layer>
Program one_layer(Pass pass, LayerAlgebra order, const Layer& layer) {
  Builder builder(pass, 6, {.planned = {order}}, 0);
  builder.begin_layer();
  const Value logits = layer(builder, builder.input());
  builder.end_layer(logits);
  return builder.finish(logits, builder.input());
}

// The operations that run, a line each.
Lines lines_of(const Program& program) {
  Lines lines;
  for (Value v = 0; v < program.size(); ++v) {
    if (program.at(v).rule->is_leaf) continue;
    lines.push_back(to_string(program, v));
  }
  return lines;
}

template <typename Layer>
Lines fused(Pass pass, LayerAlgebra order, const Layer& layer) {
  Program program = one_layer(pass, order, layer);
  fuse(program);
  return lines_of(program);
}

Value gcn_layer(Builder& b, Value x) {
  return b.activate(b.bias(gcn_convolution(b, {.x = x, .columns = 4})), ActivationFunction::kRelu,
                    0.5);
}

TEST(Fuse, BiasAndActivationJoinTheProductOrAggregateBeforeThem) {
  EXPECT_EQ(fused(Pass::kTraining, kAggregateFirst, gcn_layer),
            (Lines{"%2 = copy %0, once", "%3 = aggregate symmetric forward channel 0 %2",
                   "%5 = linear %3 %1 'layers.0.weight', bias %4, relu, dropout 0.5"}));
  EXPECT_EQ(fused(Pass::kEvaluation, kMultiplyFirst, gcn_layer),
            (Lines{"%2 = linear %0 %1 'layers.0.weight'",
                   "%4 = aggregate symmetric forward channel 0 %2, bias %3, relu"}));
}

// Training needs what gelu gets and, of the others, what they gave; an evaluation neither.
TEST(Fuse, EveryFunctionJoinsButWhatItsGradientReads) {
  for (const ActivationFunction function : kCurved) {
    const auto layer = [&](Builder& b, Value x) {
      return b.activate(b.bias(b.linear(x, b.weight("weight", x, 4))), function, 0.5);
    };
    const std::string name = to_string(function);
    EXPECT_EQ(fused(Pass::kEvaluation, kMultiplyFirst, layer),
              Lines{"%3 = linear %0 %1 'layers.0.weight', bias %2, " + name});
    Program program = one_layer(Pass::kTraining, kMultiplyFirst, layer);
    differentiate(program);
    fuse(program);
    const Lines lines = lines_of(program);
    if (function == ActivationFunction::kGelu) {
      EXPECT_EQ(lines[0], "%3 = linear %0 %1 'layers.0.weight', bias %2");
      EXPECT_EQ(lines[1], "%4 = activate %3, gelu, dropout 0.5");
    } else {
      EXPECT_EQ(lines[0],
                "%3 = linear %0 %1 'layers.0.weight', bias %2, " + name + ", dropout 0.5");
    }
    // The sums of the bias take the gradient as it is.
    EXPECT_EQ(std::ranges::count(program.operations, &rules::kActivateBackward, &Operation::rule),
              1);
    EXPECT_TRUE(std::ranges::all_of(
        program.operations, [](const Operation& op) { return op.decided.through == kNoValue; }));
  }
}

TEST(Fuse, DropoutStaysApartFromAnActivationBeforeIt) {
  const auto layer = [](Builder& b, Value x) {
    const Value product = b.linear(x, b.weight("weight", x, 4));
    return b.dropout(b.activate(product, ActivationFunction::kRelu, 0), 0.5);
  };
  EXPECT_EQ(fused(Pass::kTraining, kMultiplyFirst, layer),
            (Lines{"%2 = linear %0 %1 'layers.0.weight', relu", "%3 = activate %2, dropout 0.5"}));
  EXPECT_EQ(fused(Pass::kEvaluation, kMultiplyFirst, layer),
            Lines{"%2 = linear %0 %1 'layers.0.weight', relu"});
}

TEST(Fuse, LeavesAValueWithTwoReadersAlone) {
  const auto layer = [](Builder& b, Value x) {
    const Value product = b.linear(x, b.weight("weight", x, 4));
    const Value active = b.activate(product, ActivationFunction::kRelu, 0);
    return b.add(active, b.linear(product, b.weight("more", product, 4)));
  };
  EXPECT_EQ(fused(Pass::kTraining, kMultiplyFirst, layer),
            (Lines{"%2 = linear %0 %1 'layers.0.weight'", "%3 = activate %2, relu",
                   "%5 = linear %2 %4 'layers.0.more', added to %3"}));
}

// A layer that ends in a bare product, before one that begins with a tail.
TEST(Fuse, LeavesTheResultOfALayerAlone) {
  Builder builder(Pass::kTraining, 6, {OrderChoice::kMultiplyFirst}, 0);
  builder.begin_layer();
  const Value x = builder.linear(builder.input(), builder.weight("weight", builder.input(), 4));
  builder.end_layer(x);
  builder.begin_layer();
  const Value logits = builder.activate(x, ActivationFunction::kRelu, 0);
  builder.end_layer(logits);
  Program program = builder.finish(logits, x);
  fuse(program);
  EXPECT_EQ(program.layers[0].output, 2);
  EXPECT_EQ(program.layers[1].output, 3);
  EXPECT_EQ(program.logits, 3);
  EXPECT_EQ(program.embeddings, 2);
  EXPECT_EQ(lines_of(program),
            (Lines{"%2 = linear %0 %1 'layers.0.weight'", "%3 = activate %2, relu"}));
}

// An evaluation is asked for what the last layer gets; training is not.
TEST(Fuse, LeavesAnOutputAlone) {
  Builder builder(Pass::kEvaluation, 6, {OrderChoice::kMultiplyFirst}, 0);
  builder.begin_layer();
  const Value x = builder.linear(builder.input(), builder.weight("weight", builder.input(), 4));
  builder.end_layer(x);
  builder.begin_layer();
  const Value logits = builder.bias(x);
  builder.end_layer(logits);
  Program program = builder.finish(logits, x);
  EXPECT_EQ(program.outputs, (std::vector{logits, x}));
  fuse(program);
  EXPECT_EQ(lines_of(program), (Lines{"%2 = linear %0 %1 'layers.0.weight'",
                                      "%4 = bias %2 'layers.1.bias', bias %3"}));
}

// A value computed once must not take in what changes with the parameters.
TEST(Fuse, LeavesAKeptAggregateAlone) {
  const auto layer = [](Builder& b, Value x) {
    return b.bias(b.aggregate(Normalisation::kMean, x));
  };
  EXPECT_EQ(fused(Pass::kTraining, kKept, layer),
            (Lines{"%1 = copy %0, once", "%2 = aggregate mean forward channel 0 %1, once",
                   "%4 = bias %2 'layers.0.bias', bias %3"}));
  EXPECT_EQ(fused(Pass::kTraining, kAggregateFirst, layer),
            (Lines{"%1 = copy %0, once", "%3 = aggregate mean forward channel 0 %1, bias %2"}));
}

// Batch norm of training first needs sums over all rows of what it normalises.
TEST(Fuse, BatchNormJoinsByKnownStatisticsOnly) {
  const auto layer = [](Builder& b, Value x) {
    return b.activate(b.batch_norm(gcn_convolution(b, {.x = x, .columns = 4})),
                      ActivationFunction::kRelu, 0.5);
  };
  EXPECT_EQ(fused(Pass::kTraining, kAggregateFirst, layer),
            (Lines{"%2 = copy %0, once", "%3 = aggregate symmetric forward channel 0 %2",
                   "%4 = linear %3 %1 'layers.0.weight'", "%7 = moments %4 'layers.0.norm.weight'",
                   "%8 = sum over ranks %7 'layers.0.norm.weight'",
                   "%9 = statistics %8 'layers.0.norm.weight'",
                   "%10 = normalise %4 'layers.0.norm.weight', normalise %9 %5, bias %6, relu, "
                   "dropout 0.5"}));
  EXPECT_EQ(fused(Pass::kEvaluation, kAggregateFirst, layer),
            (Lines{"%2 = copy %0, once", "%3 = aggregate symmetric forward channel 0 %2",
                   "%6 = inverse deviation 'layers.0.norm.weight'",
                   "%7 = linear %3 %1 'layers.0.weight', normalise %6 %4, bias %5, relu"}));
}

TEST(Fuse, LayerNormStaysApart) {
  const auto layer = [](Builder& b, Value x) {
    return b.activate(b.layer_norm(gcn_convolution(b, {.x = x, .columns = 4})),
                      ActivationFunction::kRelu, 0.5);
  };
  const Lines lines = fused(Pass::kTraining, kMultiplyFirst, layer);
  EXPECT_EQ(lines, (Lines{"%2 = linear %0 %1 'layers.0.weight'",
                          "%3 = aggregate symmetric forward channel 0 %2",
                          "%6 = layer norm %3 %4 %5 'layers.0.norm.weight'",
                          "%7 = activate %6, relu, dropout 0.5"}));
}

// A tail is norm, bias, activation: a bias behind an activation is none.
TEST(Fuse, KeepsTheOrderOfATail) {
  const auto layer = [](Builder& b, Value x) {
    return b.bias(b.activate(b.linear(x, b.weight("weight", x, 4)), ActivationFunction::kRelu, 0));
  };
  EXPECT_EQ(fused(Pass::kTraining, kMultiplyFirst, layer),
            (Lines{"%2 = linear %0 %1 'layers.0.weight', relu",
                   "%4 = bias %2 'layers.0.bias', bias %3"}));
}

// An aggregate can wait for its messages while the other term is computed; else the later one adds.
TEST(Fuse, AnAdditionJoinsTheAggregateOrTheLaterTerm) {
  const auto sage = [](Builder& b, Value x) {
    return b.bias(sage_convolution(b, {.x = x, .columns = 4}));
  };
  EXPECT_EQ(
      fused(Pass::kTraining, kMultiplyFirst, sage),
      (Lines{"%3 = linear %0 %1 'layers.0.weight'", "%4 = linear %0 %2 'layers.0.root_weight'",
             "%6 = aggregate mean forward channel 0 %3, added to %4, bias %5"}));
  EXPECT_EQ(fused(Pass::kTraining, kAggregateFirst, sage),
            (Lines{"%3 = copy %0, once", "%4 = aggregate mean forward channel 0 %3",
                   "%5 = linear %4 %1 'layers.0.weight'",
                   "%7 = linear %0 %2 'layers.0.root_weight', added to %5, bias %6"}));
  // Whichever way round it was written.
  const auto reversed = [](Builder& b, Value x) {
    const Value own = b.linear(x, b.weight("own", x, 4));
    return b.add(own, b.propagate(Normalisation::kMean, x, b.weight("weight", x, 4)));
  };
  EXPECT_EQ(fused(Pass::kTraining, kMultiplyFirst, reversed).back(),
            "%5 = aggregate mean forward channel 0 %4, added to %2");
  EXPECT_EQ(fused(Pass::kTraining, kAggregateFirst, reversed).back(),
            "%6 = linear %5 %3 'layers.0.weight', added to %2");
}

// The sums run where the gradient of the activation was, and give it to all that reads it.
TEST(Fuse, TheGradientOfAnActivationJoinsTheSums) {
  Program program = one_layer(Pass::kTraining, kAggregateFirst, gcn_layer);
  differentiate(program);
  fuse(program);
  const Lines lines = lines_of(program);
  EXPECT_EQ(
      Lines(lines.begin() + 3, lines.end()),
      (Lines{"%6 = zero gradients", "%7 = loss %5",
             "%8 = bias gradient %7 'layers.0.bias', through activation %5, relu, dropout 0.5",
             "%9 = weight gradient %3 %8 'layers.0.weight'", "%10 = sum gradients", "%11 = step"}));

  const auto batch = [](Builder& b, Value x) {
    return b.activate(b.batch_norm(gcn_convolution(b, {.x = x, .columns = 4})),
                      ActivationFunction::kRelu, 0);
  };
  program = one_layer(Pass::kTraining, kAggregateFirst, batch);
  differentiate(program);
  fuse(program);
  const auto sums = std::ranges::find(program.operations, &rules::kNormSums, &Operation::rule);
  ASSERT_NE(sums, program.operations.end());
  EXPECT_EQ(sums->decided.through, program.logits);
  const auto norm = std::ranges::find(program.operations, &rules::kNormBackward, &Operation::rule);
  EXPECT_EQ(norm->inputs.front(), static_cast<Value>(sums - program.operations.begin()));
  EXPECT_EQ(std::ranges::count(program.operations, &rules::kActivateBackward, &Operation::rule), 0);
}

// Layer norm's sums are not of the activation's gradient alone: both stay.
TEST(Fuse, TheGradientOfAnActivationStaysBesideLayerNorm) {
  Program program = one_layer(Pass::kTraining, kAggregateFirst, [](Builder& b, Value x) {
    return b.activate(b.layer_norm(gcn_convolution(b, {.x = x, .columns = 4})),
                      ActivationFunction::kRelu, 0);
  });
  differentiate(program);
  fuse(program);
  EXPECT_EQ(std::ranges::count(program.operations, &rules::kActivateBackward, &Operation::rule), 1);
  const auto norm =
      std::ranges::find(program.operations, &rules::kLayerNormBackward, &Operation::rule);
  EXPECT_TRUE(program.at(norm->inputs.front()).is(rules::kActivateBackward));
}

}  // namespace
}  // namespace atl
