// Arguments that do not fit an operation of the builder: each is an error that names layer,
// convolution and operation, never an invariant that breaks when the model runs.
#include "engine/program/builder.hpp"

#include <gtest/gtest.h>

#include <array>
#include <functional>

#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

// A layer with values of every kind that arguments may wrongly be.
struct EveryKind {
  EveryKind() {
    builder.begin_layer("mine");
    x = builder.input();
    weight = builder.weight("weight", x, 8);
    z = builder.linear(x, weight);
    vector = builder.head_vector("vector", z, 2);
    scores = builder.head_dots(z, vector, 2);
    relations = builder.aggregate_relations(x, 3);
    scalar = builder.scalar("scalar", Initialisation::kOnes);
  }
  Builder builder{Pass::kTraining, 6, {}, 0, {.relations = 3, .features = 5}};
  Value x, weight, z, vector, scores, relations, scalar;  // of 6 columns, and of 8
};

struct WrongCall {
  const char* name;
  std::function<void(Builder&, const EveryKind&)> write;
  const char* error;  // behind "layer 0 (mine): "
};

constexpr AttentionOptions kAdditiveHeads{.score = AttentionScore::kAdditive, .heads = 2};
constexpr AttentionOptions kGatv2Heads{.score = AttentionScore::kGatv2, .heads = 2};
constexpr AttentionOptions kDotHeads{.score = AttentionScore::kDot, .heads = 2};

void lower_nothing(const Views& /*views*/, Requests& /*requests*/) {}
constexpr Rule kOwn{.name = "own", .lower = lower_nothing};
constexpr Rule kOwnTail{.name = "tail", .is_tail = true, .lower = lower_nothing};
constexpr Rule kOwnSum{.name = "sum", .reach = Reach::kSum, .lower = lower_nothing};
constexpr Rule kOwnNothing{.name = "empty"};

const std::vector<WrongCall> kWrongCalls = {
    {"own operation without kernels",
     [](Builder& b, const EveryKind& l) { b.own_operation(kOwnNothing, {l.z}, 8); },
     "own_operation: the rule lacks a name or lower"},
    {"own operation on all rows",
     [](Builder& b, const EveryKind& l) { b.own_operation(kOwnSum, {l.z}, 8); },
     "own_operation: 'sum' must work on rows of nodes"},
    {"own operation that fuses",
     [](Builder& b, const EveryKind& l) { b.own_operation(kOwnTail, {l.z}, 8); },
     "own_operation: the rule of 'tail' says more than"},
    {"own operation without a gradient",
     [](Builder& b, const EveryKind& l) { b.own_operation(kOwn, {l.z}, 8); },
     "own_operation: the rule of 'own' lacks through"},
    {"own operation of a parameter",
     [](Builder& b, const EveryKind& l) { b.own_operation(kOwn, {l.weight}, 8); },
     "own: an input is the parameter layers.0.weight [6, 8]; needed is a value with a row"},
    {"own operation of nothing", [](Builder& b, const EveryKind&) { b.own_operation(kOwn, {}, 8); },
     "own_operation: 'own' reads nothing"},
    {"weight of no columns", [](Builder& b, const EveryKind& l) { b.weight("w", l.x, 0); },
     "weight: columns is 0; allowed are 1 and more"},
    {"weight of no value", [](Builder& b, const EveryKind&) { b.weight("w", kNoValue, 4); },
     "columns: x is no value; needed is a value of this model"},
    {"weight of another model's value", [](Builder& b, const EveryKind&) { b.weight("w", 99, 4); },
     "columns: x is value 99, which this model lacks; needed is a value of this model"},
    {"weight declared twice", [](Builder& b, const EveryKind& l) { b.weight("weight", l.x, 4); },
     "layers.0.weight is declared twice"},
    {"stacked weight", [](Builder& b, const EveryKind& l) { b.stacked_weight("w", 0, l.x, 4); },
     "stacked_weight: count is 0"},
    {"composed weight",
     [](Builder& b, const EveryKind& l) { b.composed_weight("w", 3, 0, l.x, 4); },
     "stacked_weight: count is 0"},
    {"linear, rows", [](Builder& b, const EveryKind& l) { b.linear(l.z, l.weight); },
     "linear: weight is the parameter layers.0.weight [6, 8]; needed is a parameter [8, any]"},
    {"linear, stacked",
     [](Builder& b, const EveryKind& l) { b.linear(l.x, b.stacked_weight("w", 3, l.x, 4)); },
     "linear: weight is the parameter layers.0.w [18, 4]; needed is a parameter [6, any]"},
    {"linear, no parameter", [](Builder& b, const EveryKind& l) { b.linear(l.x, l.z); },
     "linear: weight is 'linear' of 8 columns; needed is a parameter [6, any]"},
    {"linear, swapped", [](Builder& b, const EveryKind& l) { b.linear(l.weight, l.x); },
     "linear: x is the parameter layers.0.weight [6, 8]; needed is a value with a row per node"},
    {"linear, scalar",
     [](Builder& b, const EveryKind& l) {
       b.linear(b.linear(l.x, b.weight("w", l.x, 1)), l.scalar);
     },
     "linear: weight is the parameter layers.0.scalar [1, 1]; needed is one that weight"},
    {"linear by type",
     [](Builder& b, const EveryKind& l) {
       const std::array<std::int64_t, 2> widths = {6, 6};
       b.linear_by_type(l.x, widths, 4);
     },
     "linear_by_type: only what comes before the first layer"},
    {"aggregate of a parameter",
     [](Builder& b, const EveryKind& l) { b.aggregate(Normalisation::kMean, l.weight); },
     "aggregate: x is the parameter layers.0.weight [6, 8]"},
    {"aggregate by edges",
     [](Builder& b, const EveryKind& l) { b.aggregate(Normalisation::kEdges, l.x); },
     "aggregate: normalisation is"},
    {"aggregate of relations",
     [](Builder& b, const EveryKind& l) { b.aggregate(Normalisation::kMean, l.relations); },
     "aggregate: x is 'aggregate relations', which only a product may read"},
    {"relations, count", [](Builder& b, const EveryKind& l) { b.aggregate_relations(l.x, 4); },
     "aggregate_relations: relations is 4; the dataset has 3"},
    {"pool of scores", [](Builder& b, const EveryKind& l) { b.pool({}, l.scores); },
     "pool: x is 'head dots', which only attend may read"},
    {"pool, sharpness",
     [](Builder& b, const EveryKind& l) { b.pool({PoolKind::kSoftmax}, l.z, l.vector); },
     "pool: sharpness is the parameter layers.0.vector [2, 4]; needed is a parameter [1, 1]"},
    {"pool, maximum", [](Builder& b, const EveryKind& l) { b.pool({}, l.z, l.scalar); },
     "pool: a maximum has no sharpness"},
    {"edges, features", [](Builder& b, const EveryKind& l) { b.aggregate_edges(l.z, 4); },
     "edge_weight: features is 4; the dataset has 5"},
    {"edges of a parameter", [](Builder& b, const EveryKind& l) { b.aggregate_edges(l.weight, 5); },
     "aggregate_edges: x is the parameter"},
    {"propagate",
     [](Builder& b, const EveryKind& l) { b.propagate(Normalisation::kMean, l.z, l.weight); },
     "propagate: weight is the parameter layers.0.weight [6, 8]; needed is a parameter [8, any]"},
    {"attend, heads",
     [](Builder& b, const EveryKind& l) {
       b.attend({.score = AttentionScore::kDot, .heads = 3}, l.z, l.z, kNoValue);
     },
     "attend: 8 columns can't be divided among 3 heads"},
    {"attend, no heads",
     [](Builder& b, const EveryKind& l) {
       b.attend({.score = AttentionScore::kDot, .heads = 0}, l.z, l.z, kNoValue);
     },
     "attend: heads is 0; allowed are 1 and more"},
    {"attend, features",
     [](Builder& b, const EveryKind& l) { b.attend(kDotHeads, l.x, l.x, kNoValue); },
     "attend: z is 'features' of 6 columns, which depends on no parameter"},
    {"attend, columns of t",
     [](Builder& b, const EveryKind& l) { b.attend(kDotHeads, l.z, l.x, kNoValue); },
     "attend: t has 6 columns, z has 8; needed are as many of each"},
    {"attend, t of the additive score",
     [](Builder& b, const EveryKind& l) { b.attend(kAdditiveHeads, l.z, l.z, l.vector); },
     "attend: t is 'linear' of 8 columns; needed is head_dots of 2 heads"},
    {"attend, vector of dot",
     [](Builder& b, const EveryKind& l) { b.attend(kDotHeads, l.z, l.z, l.vector); },
     "attend: vector is the parameter layers.0.vector [2, 4]; scores of dot need none"},
    {"attend, vector",
     [](Builder& b, const EveryKind& l) { b.attend(kGatv2Heads, l.z, l.z, l.weight); },
     "attend: vector is the parameter layers.0.weight [6, 8]; needed is a parameter [2, 4]"},
    {"attend, no vector",
     [](Builder& b, const EveryKind& l) { b.attend(kAdditiveHeads, l.z, l.scores, kNoValue); },
     "attend: vector is no value; needed is a parameter [2, 4]"},
    {"attend, edges of gatv2",
     [](Builder& b, const EveryKind& l) { b.attend(kGatv2Heads, l.z, l.z, l.vector, l.weight); },
     "attend: of_edges is the parameter layers.0.weight [6, 8]; needed is a parameter [5, 8]"},
    {"attend, edges of the additive score",
     [](Builder& b, const EveryKind& l) {
       b.attend(kAdditiveHeads, l.z, l.scores, l.vector, l.scores);
     },
     "attend: of_edges is 'head dots', which only attend may read; needed is edge_scores"},
    {"attend, dropout",
     [](Builder& b, const EveryKind& l) {
       b.attend({.score = AttentionScore::kDot, .heads = 2, .dropout = 1}, l.z, l.z, kNoValue);
     },
     "attend: dropout is 1; allowed are 0 to below 1"},
    {"edge weight", [](Builder& b, const EveryKind& l) { b.edge_weight(0, l.z); },
     "edge_weight: features is 0"},
    {"edge scores", [](Builder& b, const EveryKind& l) { b.edge_scores(kDotHeads, l.z, 5); },
     "edge_scores: score is dot; needed is additive"},
    {"head vector", [](Builder& b, const EveryKind& l) { b.head_vector("v", l.x, 4); },
     "head_vector: 6 columns can't be divided among 4 heads"},
    {"head dots", [](Builder& b, const EveryKind& l) { b.head_dots(l.x, l.vector, 2); },
     "head_dots: vector is the parameter layers.0.vector [2, 4]; needed is a parameter [2, 3]"},
    {"head mean", [](Builder& b, const EveryKind& l) { b.head_mean(l.z, 3); },
     "head_mean: 8 columns can't be divided among 3 heads"},
    {"combine", [](Builder& b, const EveryKind& l) { b.combine(1, l.x, 2, l.z); },
     "combine: a has 6 columns, b has 8; needed are as many of each"},
    {"add of scores", [](Builder& b, const EveryKind& l) { b.add(l.scores, l.scores); },
     "combine: a is 'head dots', which only attend may read"},
    {"maximum", [](Builder& b, const EveryKind& l) { b.maximum(l.z, l.x); },
     "maximum: a has 8 columns, b has 6; needed are as many of each"},
    {"product of nothing", [](Builder& b, const EveryKind&) { b.linear_of_all("w", {}, 4); },
     "linear_of_all: count of values is 0"},
    {"product of a parameter",
     [](Builder& b, const EveryKind& l) {
       b.linear_of_all("w", {l.x, l.weight}, 4);
     },
     "linear_of_all: x is the parameter"},
    {"bias", [](Builder& b, const EveryKind& l) { b.bias(l.vector); },
     "bias: x is the parameter layers.0.vector"},
    {"activation",
     [](Builder& b, const EveryKind& l) { b.activate(l.relations, ActivationFunction::kRelu, 0); },
     "activate: x is 'aggregate relations'"},
    {"dropout", [](Builder& b, const EveryKind& l) { b.dropout(l.x, 1.5); },
     "activate: dropout is 1.5; allowed are 0 to below 1"},
    {"random scalar",
     [](Builder& b, const EveryKind&) { b.scalar("s", Initialisation::kGlorotUniform); },
     "scalar: s starts at random"},
    {"scale", [](Builder& b, const EveryKind& l) { b.scale(l.z, l.vector); },
     "scale: scalar is the parameter layers.0.vector [2, 4]; needed is a parameter [1, 1]"},
    {"scale by degree",
     [](Builder& b, const EveryKind& l) { b.scale_by_degree(l.weight, DegreeRoot::kSource, true); },
     "scale_by_degree: x is the parameter"},
    {"layer norm", [](Builder& b, const EveryKind& l) { b.layer_norm(l.weight); },
     "layer_norm: x is the parameter"},
    {"batch norm", [](Builder& b, const EveryKind& l) { b.batch_norm(l.scores); },
     "batch_norm: x is 'head dots'"},
    {"output", [](Builder& b, const EveryKind& l) { b.end_layer(l.weight); },
     "end_layer: output is the parameter"},
    {"logits", [](Builder& b, const EveryKind& l) { b.finish(l.scores, l.z); },
     "finish: logits is 'head dots'"},
    {"relations that nothing reads", [](Builder& b, const EveryKind& l) { b.finish(l.z, l.z); },
     "'aggregate relations' is read by 0 products; needed is one"},
    {"relations read twice",
     [](Builder& b, const EveryKind& l) {
       const Value first = b.linear(l.relations, b.stacked_weight("w", 3, l.x, 8));
       const Value second = b.linear(l.relations, b.stacked_weight("v", 3, l.x, 8));
       b.finish(b.add(first, second), l.z);
     },
     "'aggregate relations' is read by 2 products; needed is one"},
};

TEST(Builder, RefusesArgumentsThatDoNotFit) {
  for (const WrongCall& wrong : kWrongCalls) {
    SCOPED_TRACE(wrong.name);
    EveryKind layer;
    const Error error = thrown_error([&] { wrong.write(layer.builder, layer); });
    EXPECT_EQ(error.kind(), ErrorKind::kOption);
    const std::string text = error.what();
    EXPECT_TRUE(text.starts_with(std::string("layer 0 (mine): ") + wrong.error)) << text;
  }
}

TEST(Builder, OnlyLayersReadRowsOfNeighbours) {
  Builder builder(Pass::kTraining, 6, {}, 0);
  const Error before = thrown_error([&] { builder.aggregate(Normalisation::kMean, 0); });
  EXPECT_EQ(std::string(before.what()),
            "input layer: aggregate: only a layer may read rows of neighbours");
  builder.begin_head();
  const Value x = builder.linear(0, builder.weight("weight", 0, 4));
  const Error behind = thrown_error(
      [&] { builder.attend({.score = AttentionScore::kDot, .heads = 1}, x, x, kNoValue); });
  EXPECT_EQ(std::string(behind.what()), "head: attend: only a layer may read rows of neighbours");
}

}  // namespace
}  // namespace atl
