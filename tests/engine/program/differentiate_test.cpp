// Which gradients are made, and in which order their terms are added: the order decides the bits.
#include "engine/program/differentiate.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/models/convolutions.hpp"
#include "engine/models/model.hpp"
#include "engine/program/operations/rules.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

constexpr LayerAlgebra kMultiplies{MultiplyOrder::kMultiplyFirst, false};
constexpr LayerAlgebra kAggregates{MultiplyOrder::kAggregateFirst, false};

// Operations of one backward scope, a line each.
std::vector<std::string> backward_lines(const Program& program, int layer) {
  std::vector<std::string> lines;
  for (Value v = 0; v < program.size(); ++v) {
    if (program.scope_of(v) != Scope{Scope::Kind::kLayer, layer, Direction::kBackward}) continue;
    lines.push_back(to_string(program, v));
  }
  return lines;
}

int count_of(const Program& program, const Rule& kind) {
  return static_cast<int>(std::ranges::count(program.operations, &kind, &Operation::rule));
}

using Operations = std::vector<std::string>;

// Two SAGE layers, the second with all terms.
Program sage(LayerAlgebra order) {
  Builder b(Pass::kTraining, 6, {.planned = {order, order}}, 0);
  Value x = b.input();
  for (int layer = 0; layer < 2; ++layer) {
    b.begin_layer();
    x = sage_convolution(b, {.x = x, .columns = 4});
    b.end_layer(x);
  }
  Program program = b.finish(x, x);
  differentiate(program);
  return program;
}

// The forward pass of such a layer: weight, root weight, two operations on neighbours, the node's
// own product, and the sum of both.
TEST(Differentiate, SageStoresTheNeighboursTermAndAddsTheRoots) {
  const Program first = sage(kMultiplies);
  EXPECT_EQ(to_string(first, 12), "%12 = add %10 %11");
  EXPECT_EQ(
      backward_lines(first, 1),
      (Operations{"%15 = weight gradient %6 %14 'layers.1.root_weight'",
                  "%16 = aggregate mean backward channel 1 %14",
                  "%17 = weight gradient %6 %16 'layers.1.weight'",
                  "%18 = linear transposed %16 %7 'layers.1.weight'",
                  "%19 = linear transposed %14 %8 'layers.1.root_weight'", "%20 = add %18 %19"}));
  EXPECT_TRUE(first.at(20).as<Combination>().ordered);

  // One operation more: the features' copy.
  const Program second = sage(kAggregates);
  EXPECT_EQ(
      backward_lines(second, 1),
      (Operations{"%16 = weight gradient %7 %15 'layers.1.root_weight'",
                  "%17 = weight gradient %10 %15 'layers.1.weight'",
                  "%18 = linear transposed %15 %8 'layers.1.weight'",
                  "%19 = aggregate mean backward channel 1 %18",
                  "%20 = linear transposed %15 %9 'layers.1.root_weight'", "%21 = add %19 %20"}));
  EXPECT_TRUE(second.at(21).as<Combination>().ordered);
}

// The first layer's input depends on no parameter: nothing asks for its gradient, and with the
// aggregate before the product nothing needs messages.
TEST(Differentiate, MakesNoGradientOfConstants) {
  EXPECT_EQ(backward_lines(sage(kMultiplies), 0),
            (Operations{"%21 = weight gradient %0 %20 'layers.0.root_weight'",
                        "%22 = aggregate mean backward channel 0 %20",
                        "%23 = weight gradient %0 %22 'layers.0.weight'"}));
  EXPECT_EQ(backward_lines(sage(kAggregates), 0),
            (Operations{"%22 = weight gradient %0 %21 'layers.0.root_weight'",
                        "%23 = weight gradient %4 %21 'layers.0.weight'"}));
  for (const double input_dropout : {0.0, 0.5}) {
    ModelConfig config;
    config.layers = 2;
    config.features = 6;
    config.outputs = 3;
    config.input_dropout = input_dropout;
    config.order = OrderChoice::kAggregateFirst;
    const Program program = model_program(config, Pass::kTraining);
    EXPECT_TRUE(std::ranges::none_of(program.operations, [&](const Operation& op) {
      const Scope& scope = program.scopes[static_cast<std::size_t>(op.scope)];
      return scope.kind == Scope::Kind::kInput && scope.direction == Direction::kBackward;
    }));
    EXPECT_EQ(count_of(program, rules::kActivateBackward), 0);  // part of the sums of the bias
  }
}

// a, b and c read x; the sum that reads them in another order changes nothing.
TEST(Differentiate, AddsTermsInForwardOrderOfTheReaders) {
  Builder builder(Pass::kTraining, 6, {OrderChoice::kMultiplyFirst}, 0);
  builder.begin_layer();
  const Value x = builder.linear(builder.input(), builder.weight("weight", builder.input(), 4));
  builder.end_layer(x);
  builder.begin_layer();
  const Value a = builder.linear(x, builder.weight("a", x, 4));
  const Value b = builder.linear(x, builder.weight("b", x, 4));
  const Value c = builder.linear(x, builder.weight("c", x, 4));
  const Value logits = builder.add(c, builder.add(b, a));
  builder.end_layer(logits);
  Program program = builder.finish(logits, builder.input());
  differentiate(program);
  EXPECT_EQ(backward_lines(program, 1),
            (Operations{"%13 = weight gradient %2 %12 'layers.1.c'",
                        "%14 = weight gradient %2 %12 'layers.1.b'",
                        "%15 = weight gradient %2 %12 'layers.1.a'",
                        "%16 = linear transposed %12 %3 'layers.1.a'",
                        "%17 = linear transposed %12 %5 'layers.1.b'", "%18 = add %16 %17",
                        "%19 = linear transposed %12 %7 'layers.1.c'", "%20 = add %18 %19"}));
  EXPECT_EQ(backward_lines(program, 0),
            Operations{"%21 = weight gradient %0 %20 'layers.0.weight'"});
}

// The layer that reads x last leaves its term first; the nearer one adds to it.
TEST(Differentiate, AddsTermsOfEarlierScopesToThoseOfLaterOnes) {
  Builder builder(Pass::kTraining, 6, {OrderChoice::kMultiplyFirst}, 0);
  builder.begin_layer();
  const Value x = builder.linear(builder.input(), builder.weight("weight", builder.input(), 4));
  builder.end_layer(x);
  builder.begin_layer();
  const Value y = builder.linear(x, builder.weight("weight", x, 4));
  builder.end_layer(y);
  builder.begin_layer();
  const Value z = builder.linear(y, builder.weight("weight", y, 4));
  const Value logits = builder.add(z, x);
  builder.end_layer(logits);
  Program program = builder.finish(logits, builder.input());
  differentiate(program);
  const auto loss =
      static_cast<Value>(std::ranges::find(program.operations, &rules::kLoss, &Operation::rule) -
                         program.operations.begin());
  const Operations middle = backward_lines(program, 1);
  ASSERT_EQ(middle.size(), 3U);
  // Layer 2 passes the gradient of its own output past layer 1, as it is.
  EXPECT_TRUE(middle[2].ends_with(fmt::format("add %{} %{}", loss, program.size() - 5)))
      << to_string(program);
}

TEST(Differentiate, AddsBothTermsOfAValueThatIsReadTwiceAtOnce) {
  Builder builder(Pass::kTraining, 6, {OrderChoice::kMultiplyFirst}, 0);
  builder.begin_layer();
  const Value x = builder.linear(builder.input(), builder.weight("weight", builder.input(), 4));
  const Value logits = builder.add(x, x);
  builder.end_layer(logits);
  Program program = builder.finish(logits, builder.input());
  differentiate(program);
  EXPECT_EQ(backward_lines(program, 0),
            (Operations{"%6 = add %5 %5", "%7 = weight gradient %0 %6 'layers.0.weight'"}));
}

// Relu, leaky relu and elu from what they gave, gelu from what it got; dropout alone is its own
// gradient.
TEST(Differentiate, ActivationsPassGradientsByWhatTellsTheirSlope) {
  const auto lines = [](ActivationFunction function, double dropout) {
    Builder builder(Pass::kTraining, 6, {OrderChoice::kMultiplyFirst}, 0);
    builder.begin_layer();
    const Value x = builder.linear(builder.input(), builder.weight("weight", builder.input(), 4));
    const Value logits = builder.activate(x, function, dropout);
    builder.end_layer(logits);
    Program program = builder.finish(logits, x);
    differentiate(program);
    return backward_lines(program, 0).front();
  };
  EXPECT_EQ(lines(ActivationFunction::kRelu, 0.5),
            "%6 = activate backward %5 %3, relu, dropout 0.5");
  EXPECT_EQ(lines(ActivationFunction::kLeakyRelu, 0), "%6 = activate backward %5 %3, leaky-relu");
  EXPECT_EQ(lines(ActivationFunction::kElu, 0.5), "%6 = activate backward %5 %3, elu, dropout 0.5");
  EXPECT_EQ(lines(ActivationFunction::kGelu, 0.5),
            "%6 = activate backward %5 %2, gelu, dropout 0.5");
  EXPECT_EQ(lines(ActivationFunction::kNone, 0.5), "%6 = activate %5, dropout 0.5");
  EXPECT_EQ(lines(ActivationFunction::kNone, 0), "%5 = weight gradient %0 %4 'layers.0.weight'");
}

TEST(Differentiate, MaximaAndTrainedFactors) {
  Builder b(Pass::kTraining, 6, {OrderChoice::kMultiplyFirst}, 0);
  b.begin_layer();
  const Value x = b.linear(b.input(), b.weight("weight", b.input(), 4));
  const Value scaled = b.scale(x, b.scalar("epsilon", Initialisation::kOnes));
  const Value logits = b.maximum(scaled, x);
  b.end_layer(logits);
  Program program = b.finish(logits, x);
  differentiate(program);
  EXPECT_EQ(to_string(program, 4), "%4 = scale %2 %3 'layers.0.epsilon'");
  EXPECT_EQ(to_string(program, 5), "%5 = maximum %4 %2");
  EXPECT_EQ(backward_lines(program, 0),
            (Operations{
                "%8 = maximum gradient %7 %4 %2", "%9 = scale gradient %2 %8 'layers.0.epsilon'",
                "%10 = scale %8 %3 'layers.0.epsilon'", "%11 = maximum gradient of second %7 %4 %2",
                "%12 = add %10 %11", "%13 = weight gradient %0 %12 'layers.0.weight'"}));
}

// Backward reads the halo rows of z again, which other messages would have overwritten.
TEST(Builder, RefusesOtherAggregatesOfWhatAttentionReads) {
  Builder builder(Pass::kTraining, 6, {}, 0);
  builder.begin_layer();
  const Value z = builder.linear(builder.input(), builder.weight("weight", builder.input(), 4));
  const Value attended =
      builder.attend({.score = AttentionScore::kDot, .heads = 2}, z, z, kNoValue);
  const Value sum = builder.add(attended, builder.aggregate(Normalisation::kMean, z));
  builder.end_layer(sum);
  const Error error = thrown_error([&] { builder.finish(sum, z); });
  EXPECT_EQ(error.kind(), ErrorKind::kOption);
  EXPECT_NE(std::string(error.what()).find("reads a value that 2 aggregates read"),
            std::string::npos)
      << error.what();
}

// The parts of attention's gradient: a half by targets, halo rows that travel back, and a half by
// sources.
TEST(Differentiate, AttentionReturnsRowsToTheirOwners) {
  Builder builder(Pass::kTraining, 6, {}, 0);
  builder.begin_layer();
  const Value weight = builder.weight("weight", builder.input(), 4);
  const Value z = builder.linear(builder.input(), weight);
  const Value vector = builder.head_vector("vector", z, 2);
  const Value y = builder.attend({.score = AttentionScore::kGatv2, .heads = 2}, z, z, vector);
  builder.end_layer(y);
  Program program = builder.finish(y, z);
  differentiate(program);
  EXPECT_EQ(backward_lines(program, 0),
            (Operations{"%7 = coefficients",
                        "%8 = attend backward, targets %6 %7 %2 %2 %3 'layers.0.vector'",
                        "%9 = attend backward, halo rows %6 %7 %8 %2 %2 %3 'layers.0.vector'",
                        "%10 = attend backward, sources channel 0 %9 %6 %7 %8 %2 %2 %3 "
                        "'layers.0.vector'",
                        "%11 = add %10 %8", "%12 = weight gradient %0 %11 'layers.0.weight'"}));
}

// The product behind the means gets the gradient that is read relation by relation.
TEST(Differentiate, RelationsReturnRowsToTheirOwners) {
  Builder builder(Pass::kTraining, 6, {}, 0);
  builder.begin_layer();
  const Value x = builder.linear(builder.input(), builder.weight("weight", builder.input(), 3));
  const Value weight = builder.composed_weight("relations", 5, 2, x, 4);
  const Value y = builder.linear(builder.aggregate_relations(x, 5), weight);
  builder.end_layer(y);
  Program program = builder.finish(y, x);
  differentiate(program);
  EXPECT_EQ(backward_lines(program, 0),
            (Operations{"%10 = weight gradient %6 %9 'layers.0.relations'",
                        "%11 = linear transposed %9 %5 'layers.0.relations'",
                        "%12 = relations backward, halo rows %11",
                        "%13 = relations backward, sources channel 0 %12 %11",
                        "%14 = weight gradient %0 %13 'layers.0.weight'"}));
  EXPECT_TRUE(program.at(11).packed);
  EXPECT_TRUE(program.at(6).packed);
}

// By model, norm and order.
TEST(Differentiate, GivesEveryParameterOneGradientAndMirrorsScopes) {
  for (const std::string& kind : model_kinds()) {
    for (const Norm norm : {Norm::kNone, Norm::kLayer, Norm::kBatch}) {
      for (const OrderChoice order :
           {OrderChoice::kAuto, OrderChoice::kMultiplyFirst, OrderChoice::kAggregateFirst}) {
        ModelConfig config;
        config.kind = kind;
        config.layers = 4;
        config.features = 6;
        config.outputs = 3;
        config.relations = 2;
        config.edge_features = 2;
        config.norm = norm;
        config.edge_scores = kind.starts_with("gat") && norm == Norm::kLayer;
        config.order = order;
        config.node_types = 2;
        // A layer per type is one more scope, whichever layers follow.
        if (norm == Norm::kLayer) config.input_layer = InputLayerChoice::kTyped;
        const Program program = model_program(config, Pass::kTraining);
        SCOPED_TRACE(to_string(program));
        std::vector<int> gradients(program.parameters.size(), 0);
        const auto score = [](const Operation& op) { return op.as<AttentionOptions>().score; };
        for (Value v = program.forward_end(); v < program.size(); ++v) {
          const Operation& op = program.at(v);
          const bool adds_two = op.is(rules::kLayerNormBackward) || op.is(rules::kNormSums) ||
                                op.is(rules::kEdgesTerms);
          // The halo rows' part of additive scores comes with kAttendHalo, too.
          const bool adds_to_score =
              op.is(rules::kAttendTargets)
                  ? score(op) == AttentionScore::kGatv2
                  : op.is(rules::kAttendSources) && score(op) == AttentionScore::kAdditive;
          // A sum over rows that has a parameter is that of its gradient.
          const Reach reach = op.rule->reach;
          const bool is_sum = !op.rule->has_rows && op.parameter >= 0 &&
                              (reach == Reach::kSum || reach == Reach::kWhole);
          const bool adds = adds_two || adds_to_score || is_sum || op.is(rules::kHeadDotsBackward);
          if (adds) ++gradients[static_cast<std::size_t>(op.parameter)];
          const bool adds_to_edges = op.is(rules::kAttendTargets) &&
                                     score(op) == AttentionScore::kGatv2 &&
                                     op.second_parameter >= 0;
          if (adds_two || adds_to_edges) {
            ++gradients[static_cast<std::size_t>(op.second_parameter)];
          }
        }
        for (const DeclaredParameter& parameter : program.parameters) {
          if (!parameter.composition.present()) continue;
          // From the gradient of what they make, with kComposedGradients.
          ++gradients[static_cast<std::size_t>(parameter.composition.coefficients)];
          ++gradients[static_cast<std::size_t>(parameter.composition.bases)];
        }
        EXPECT_EQ(gradients, std::vector(program.parameters.size(), 1));
        EXPECT_EQ(count_of(program, rules::kZeroGradients), 1);
        EXPECT_EQ(count_of(program, rules::kSumGradients), 1);

        // Layers 0 to 3, loss, layers 3 to 0, step; no value of a later scope is read.
        int before = -1;
        for (Value v = 0; v < program.size(); ++v) {
          EXPECT_GE(program.at(v).scope, before);
          before = program.at(v).scope;
          for (const Value read : reads_of(program.at(v))) EXPECT_LT(read, v);
        }
        const std::size_t forward = (program.scopes.size() - 2) / 2;
        for (std::size_t s = 0; s < forward; ++s) {
          const Scope& scope = program.scopes[s];
          EXPECT_EQ(program.scopes[program.scopes.size() - 2 - s],
                    (Scope{scope.kind, scope.layer, Direction::kBackward}));
        }
        EXPECT_EQ(program.scopes[forward].kind, Scope::Kind::kLoss);
        EXPECT_EQ(program.scopes.back().kind, Scope::Kind::kStep);
      }
    }
  }
}

// The number of a channel keys rounding noise and finds widths in checkpoints: that of the layer in
// models of one aggregate per layer, also where a layer keeps its aggregate or is computed for halo
// rows.
TEST(Channels, AreNumberedByLayerInModelsOfOneAggregateEach) {
  for (const char* kind : {"gcn", "sage", "gin", "mean", "sum", "gcnii", "sgc"}) {
    for (const OrderChoice order :
         {OrderChoice::kAuto, OrderChoice::kMultiplyFirst, OrderChoice::kAggregateFirst}) {
      for (const bool recomputes : {false, true}) {
        if (recomputes && order != OrderChoice::kAggregateFirst) continue;
        ModelConfig config;
        config.kind = kind;
        config.layers = 4;
        config.features = 6;
        config.outputs = 3;
        config.order = order;
        Recomputation recomputation(2);
        recomputation.set(0, 1);
        if (recomputes && !can_recompute(config)) continue;
        if (recomputes) config.recomputation = recomputation;
        for (const Pass pass : {Pass::kTraining, Pass::kEvaluation}) {
          const Program program = model_program(config, pass);
          int numbered = 0;
          for (Value v = 0; v < program.size(); ++v) {
            const int number = program.at(v).messages.channel;
            if (number < 0) continue;
            EXPECT_EQ(number, program.scope_of(v).layer) << to_string(program, v);
            ++numbered;
          }
          EXPECT_GE(numbered, config.layers);
        }
      }
    }
  }
}

TEST(Channels, AreNumberedInOrderOfTheForwardPass) {
  Builder b(Pass::kTraining, 6, {OrderChoice::kMultiplyFirst}, 0);
  b.begin_layer();
  const Value once = gcn_convolution(b, {.x = b.input(), .columns = 4});
  const Value twice = b.aggregate(Normalisation::kSymmetric, once);
  b.end_layer(twice);
  b.begin_layer();
  const Value logits = gcn_convolution(b, {.x = twice, .columns = 3});
  b.end_layer(logits);
  Program program = b.finish(logits, b.input());
  differentiate(program);
  std::vector<int> forward, backward;
  for (const Operation& op : program.operations) {
    if (!op.is(rules::kAggregate)) continue;
    (op.messages.direction == Direction::kForward ? forward : backward)
        .push_back(op.messages.channel);
  }
  EXPECT_EQ(forward, (std::vector{0, 1, 2}));
  EXPECT_EQ(backward, (std::vector{2, 1, 0}));
}

}  // namespace
}  // namespace atl
