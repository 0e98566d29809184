// Gradients of whole models against finite differences in double, on directed graphs, and the same
// loss and gradients for any number of ranks.
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "engine/models/convolutions.hpp"
#include "engine/models/model.hpp"
#include "engine/program/differentiate.hpp"
#include "engine/program/fuse.hpp"
#include "engine/program/network.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/test_rank.hpp"
#include "tests/support/typed_edges.hpp"

namespace atl {
namespace {

constexpr std::int32_t kNodes = 60;
constexpr std::int64_t kFeatures = 6;
constexpr std::int64_t kClasses = 4;

struct ModelCase {
  std::string kind = "gcn";
  Norm norm = Norm::kNone;
  OrderChoice order = OrderChoice::kAuto;
  bool cache = true;
  double dropout = 0.4;
  double input_dropout = 0;
  bool sigmoid = false;
  bool directed = true;
  // Rank r computes the halo rows of owner o where (r + 2 o) % 3 < recompute: 0 none, 3 all.
  int recompute = 0;
  int layers = 3;
  ActivationFunction function = ActivationFunction::kRelu;
  Dropping dropping = {};
  Offloading offloading = {};
};

Value normalised(Builder& builder, Value x, Norm norm) {
  return norm == Norm::kBatch   ? builder.batch_norm(x)
         : norm == Norm::kLayer ? builder.layer_norm(x)
                                : builder.bias(x);
}

// "skips": layers that read the one before and the first one besides what they aggregate, with
// factors and without.
Program skips_program(const ModelConfig& config, Pass pass) {
  Builder builder(pass, config.features, {config.order, config.cache_aggregate},
                  config.input_dropout);
  builder.begin_layer();
  Value x = builder.input();
  const Value own = builder.linear(x, builder.weight("skip", x, config.hidden));
  x = builder.add(gcn_convolution(builder, {.x = x, .columns = config.hidden}), own);
  x = builder.activate(normalised(builder, x, config.norm), ActivationFunction::kRelu,
                       config.dropout);
  builder.end_layer(x);
  const Value first = x;
  for (int layer = 1; layer + 1 < config.layers; ++layer) {
    builder.begin_layer();
    const Value support =
        builder.combine(0.9F, builder.aggregate(Normalisation::kSymmetric, x), 0.1F, first);
    const Value product = builder.linear(support, builder.weight("weight", support, config.hidden));
    const Value mixed = builder.combine(0.4F, support, 0.6F, product);
    x = builder.add(builder.activate(normalised(builder, mixed, config.norm),
                                     ActivationFunction::kRelu, config.dropout),
                    x);
    builder.end_layer(x);
  }
  builder.begin_layer();
  const Value twice = builder.add(x, x);
  const Value logits = sage_convolution(builder, {.x = twice, .columns = config.outputs});
  const Value all = builder.bias(
      builder.add(logits, builder.linear(first, builder.weight("jump", first, config.outputs))));
  builder.end_layer(all);
  Program program = builder.finish(all, x);
  if (pass == Pass::kTraining) differentiate(program);
  fuse(program);
  return program;
}

// "mixed": every activation function, dropout with it and apart from it, trained factors and the
// larger of two values.
Program mixed_program(const ModelConfig& config, ActivationFunction function, Pass pass) {
  Builder builder(pass, config.features, {config.order, config.cache_aggregate}, 0);
  builder.begin_layer();
  Value x = gcn_convolution(builder, {.x = builder.input(), .columns = config.hidden});
  x = builder.activate(normalised(builder, x, config.norm), function, config.dropout);
  builder.end_layer(x);
  const Value first = x;
  for (int layer = 1; layer + 1 < config.layers; ++layer) {
    builder.begin_layer();
    const Value own = builder.scale(x, builder.scalar("epsilon", Initialisation::kOnes));
    const Value sum = builder.add(own, builder.aggregate(Normalisation::kMean, x));
    const Value product = builder.linear(sum, builder.weight("weight", sum, config.hidden));
    const Value active = builder.activate(normalised(builder, product, config.norm), function, 0);
    x = builder.maximum(builder.dropout(active, config.dropout), x);
    builder.end_layer(x);
  }
  builder.begin_layer();
  // A product alone in front of dropout alone, whose gradient meets one again.
  const Value mixed = builder.linear(x, builder.weight("mix", x, config.hidden));
  const Value largest = builder.maximum(first, builder.dropout(mixed, config.dropout));
  const Value logits =
      builder.bias(sage_convolution(builder, {.x = largest, .columns = config.outputs}));
  builder.end_layer(logits);
  Program program = builder.finish(logits, x);
  if (pass == Pass::kTraining) differentiate(program);
  fuse(program);
  return program;
}

constexpr std::string_view kEdgeScores = "edge_scores_";

// Models with an option beside their kind.
ModelConfig named_model(ModelConfig config) {
  const std::string name = config.kind;
  if (name == "bases") {
    config.kind = "rgcn";
    config.bases = 2;
  } else if (name.starts_with(kEdgeScores)) {
    config.kind = name.substr(kEdgeScores.size());
    config.heads = 2;
    config.hidden = 6;
    config.edge_scores = true;
  } else if (name.starts_with("symmetric_")) {
    config.kind = name.substr(std::string("symmetric_").size());
    config.heads = 2;
    config.hidden = 6;
    config.attention_norm = AttentionNorm::kSymmetric;
  } else if (name == "typed") {
    config.kind = "sage";
    config.input_layer = InputLayerChoice::kTyped;
  } else if (name == "max" || name.ends_with("softmax") || name.ends_with("power")) {
    config.kind = "sage";
    config.aggregator = name == "max"               ? Aggregator::kMax
                        : name.ends_with("softmax") ? Aggregator::kSoftmax
                                                    : Aggregator::kPower;
    config.temperature = 1.5;
    config.aggregator_power = 1.5;
    config.learns_aggregator = name.starts_with("learned_");
  }
  return config;
}

Program program_of(const ModelConfig& config, ActivationFunction function, Pass pass) {
  return config.kind == "skips"   ? skips_program(config, pass)
         : config.kind == "mixed" ? mixed_program(config, function, pass)
                                  : model_program(named_model(config), pass);
}

struct Outcome {
  double loss = 0;
  std::vector<double> gradient;  // summed over ranks, in the flat order of the parameters
  std::vector<double> values;
};

double feature(std::int64_t node, std::int64_t column) {
  return std::cos(static_cast<double>(node * 13 + column * 7));
}

// Loss and gradient with fixed parameters, parameter `shifted` moved by `delta`.
Outcome run_model(const ModelCase& setup, int parts, std::int64_t shifted, double delta,
                  bool overlap = true, Sharing sharing = Sharing::kPacked) {
  const Csr csr = random_graph(kNodes, 4, setup.directed, true, 5);
  const bool typed = setup.kind == "rgcn" || setup.kind == "bases" || setup.kind == "gine" ||
                     setup.kind.starts_with(kEdgeScores) || setup.kind == "typed";
  EdgeArrays arrays = typed ? make_edge_arrays(csr) : EdgeArrays();
  for (float& value : arrays.features) value = std::sin(value);
  const GraphView graph =
      typed ? arrays.on(csr, !setup.directed) : GraphView{csr.view(), !setup.directed};
  Outcome outcome;
  std::mutex mutex;
  run_parts(graph, parts, [&](Transport& transport, const LocalGraphView& local) {
    TestRank rank(transport, local, "reference");
    const std::int64_t inner = local.inner();
    Tensor features(*rank.backend, inner, kFeatures, DType::kF64);
    std::vector<std::int32_t> labels;
    std::vector<std::uint8_t> targets;
    std::vector<LocalId> rows;
    for (std::int64_t i = 0; i < inner; ++i) {
      const std::int64_t node = to_index(local.inner_ids[i]);
      for (std::int64_t f = 0; f < kFeatures; ++f)
        features.view().row<double>(i)[f] = feature(node, f);
      labels.push_back(node % 5 == 4 ? -1 : static_cast<std::int32_t>(node % kClasses));
      for (std::int64_t c = 0; c < kClasses; ++c) {
        targets.push_back(static_cast<std::uint8_t>((node + c) % 3 == 0));
      }
      if (labels.back() >= 0 && node % 3 != 0) rows.push_back(static_cast<LocalId>(i));
    }
    std::int64_t total = static_cast<std::int64_t>(rows.size());
    transport.all_reduce(std::span(&total, 1), {"count"});
    LossTargets loss_targets;
    loss_targets.rows = rows;
    if (setup.sigmoid) {
      loss_targets.kind = LabelKind::kSeveral;
      loss_targets.multi_labels = targets;
    } else {
      loss_targets.labels = labels;
    }
    ModelConfig config;
    config.kind = setup.kind;
    config.layers = setup.layers;
    config.hidden = 5;
    config.features = kFeatures;
    config.outputs = kClasses;
    config.relations = EdgeArrays::kTypes;
    config.edge_features = EdgeArrays::kColumns;
    config.node_types = EdgeArrays::kNodeTypes;
    if (setup.directed) config.features_by_type = {kFeatures, 2, 0};
    config.dropout = setup.dropout;
    config.input_dropout = setup.input_dropout;
    config.attention_dropout = setup.dropout;
    config.output_heads = 3;
    config.norm = setup.norm;
    config.order = setup.order;
    config.cache_aggregate = setup.cache;
    config.dtype = DType::kF64;
    Recomputation recomputation(parts);
    for (int r = 0; r < parts; ++r) {
      for (int owner = 0; owner < parts; ++owner) {
        if (r != owner && (r + 2 * owner) % 3 < setup.recompute) recomputation.set(r, owner);
      }
    }
    config.recomputation = recomputation;
    config.dropping = setup.dropping;
    config.offloading = setup.offloading;
    Network network(program_of(config, setup.function, Pass::kTraining),
                    program_of(config, setup.function, Pass::kEvaluation),
                    {.dtype = DType::kF64,
                     .recomputation = recomputation,
                     .sharing = sharing,
                     .poisons_dead_values = sharing == Sharing::kPacked},
                    rank.self, local, features.view());
    rank.exchange->keep_alive(network.memory());
    network.allocate();
    // Biases start at 0, where rows of zeros would stand on the kink of ReLU.
    ParameterStore& parameters = network.parameters();
    for (std::int64_t p = 0; p < parameters.size(); ++p) {
      parameters.values().row<double>(0)[p] += 0.1 * std::sin(static_cast<double>(3 * p + 1));
    }
    if (shifted >= 0) parameters.values().row<double>(0)[shifted] += delta;
    parameters.refresh_operands(*rank.backend, *rank.queue);
    Loss loss(*rank.backend, loss_targets, static_cast<double>(total));
    const Round round{.epoch = 1, .overlap = overlap};
    double value = 0;
    for (int pass = 0; pass < 2; ++pass) {       // the second one reads the kept aggregate
      for (NormState& norm : network.norms()) {  // same running statistics in both
        for (double& mean : norm.running_mean.span()) mean = 0;
      }
      network.run_forward(*rank.exchange, round);
      network.run_backward(*rank.exchange, round, loss);
      double again = loss.local_sum() / static_cast<double>(loss.total());
      transport.all_reduce(std::span(&again, 1), {"loss"});
      if (pass == 1) {
        EXPECT_EQ(value, again);
      }
      value = again;
    }
    parameters.add_composed_gradients(*rank.backend, *rank.queue);
    rank.reducer.sum(parameters.gradients(), "gradients", 1);
    if (transport.rank() == 0) {
      const std::lock_guard lock(mutex);
      const std::int64_t size = parameters.size();
      const double* gradient = parameters.gradients().row<double>(0);
      const double* values = parameters.values().row<double>(0);
      outcome = {value, {gradient, gradient + size}, {values, values + size}};
    }
  });
  return outcome;
}

std::vector<ModelCase> setups() {
  std::vector<ModelCase> all;
  for (const std::string& kind : model_kinds()) {
    for (const Norm norm : {Norm::kNone, Norm::kLayer, Norm::kBatch}) {
      // Orders and dropout mean the same for all of them.
      if (kind != "gcn" && kind != "sage") {
        all.push_back({kind, norm, OrderChoice::kAuto, true, 0.3, 0.5, norm == Norm::kNone, true});
        all.push_back({kind, norm, OrderChoice::kMultiplyFirst, false, 0, 0, false, false});
        continue;
      }
      for (const OrderChoice order :
           {OrderChoice::kAuto, OrderChoice::kMultiplyFirst, OrderChoice::kAggregateFirst}) {
        all.push_back({kind, norm, order, true, 0.4, 0, false, true});
      }
      all.push_back({kind, norm, OrderChoice::kAggregateFirst, false, 0.4, 0, false, true});
      all.push_back({kind, norm, OrderChoice::kAuto, true, 0.3, 0.5, true, true});
      all.push_back({kind, norm, OrderChoice::kAuto, true, 0, 0, false, false});
      all.push_back({kind, norm, OrderChoice::kAggregateFirst, true, 0.4, 0, false, true, 1});
      all.push_back({kind, norm, OrderChoice::kAggregateFirst, true, 0.4, 0, false, true, 3});
      all.push_back({kind, norm, OrderChoice::kAuto, true, 0.4, 0, false, true, 2});
    }
    ModelConfig config;
    config.kind = kind;
    config.order = OrderChoice::kAggregateFirst;
    if (can_recompute(config.sized({.features = kFeatures,
                                    .outputs = kClasses,
                                    .relations = EdgeArrays::kTypes,
                                    .edge_features = EdgeArrays::kColumns},
                                   2))) {
      all.push_back({kind, Norm::kBatch, config.order, true, 0.4, 0, false, true, 1});
    }
    // Gradients change places more often.
    all.push_back({.kind = kind, .order = OrderChoice::kMultiplyFirst, .layers = 5});
    all.push_back({.kind = kind, .norm = Norm::kBatch, .layers = 5});
  }
  all.push_back({.kind = "bases", .layers = 2});
  for (const bool directed : {true, false}) {
    all.push_back({.kind = "edge_scores_gat", .directed = directed, .layers = 2});
    all.push_back({.kind = "edge_scores_gatv2", .directed = directed, .layers = 2});
  }
  for (const char* kind : {"symmetric_gat", "symmetric_gatv2", "symmetric_dot"}) {
    all.push_back({.kind = kind, .norm = Norm::kLayer, .dropout = 0.3, .directed = true});
    all.push_back({.kind = kind, .directed = false, .layers = 2});
  }
  for (const Norm norm : {Norm::kNone, Norm::kLayer, Norm::kBatch}) {
    all.push_back({.kind = "typed", .norm = norm, .layers = 2});
    all.push_back({.kind = "typed", .norm = norm, .input_dropout = 0.5, .directed = false});
  }
  for (const char* aggregator : {"max", "softmax", "power", "learned_softmax", "learned_power"}) {
    all.push_back({.kind = aggregator, .norm = Norm::kLayer, .input_dropout = 0.5});
    all.push_back({.kind = aggregator, .norm = Norm::kBatch, .directed = true, .layers = 4});
    all.push_back({.kind = aggregator, .sigmoid = true});
  }
  for (const Norm norm : {Norm::kNone, Norm::kLayer, Norm::kBatch}) {
    for (const OrderChoice order : {OrderChoice::kMultiplyFirst, OrderChoice::kAggregateFirst}) {
      all.push_back({.kind = "skips", .norm = norm, .order = order, .layers = 4});
    }
    all.push_back({.kind = "skips", .norm = norm, .cache = false, .input_dropout = 0.5});
  }
  for (const ActivationFunction function : kActivationFunctions) {
    for (const double dropout : {0.0, 0.4}) {
      all.push_back({.kind = "mixed", .dropout = dropout, .layers = 4, .function = function});
    }
    all.push_back({.kind = "mixed", .norm = Norm::kBatch, .layers = 4, .function = function});
    all.push_back({.kind = "mixed", .norm = Norm::kLayer, .layers = 4, .function = function});
  }
  return all;
}

class GradientTest : public ::testing::TestWithParam<ModelCase> {};

TEST_P(GradientTest, MatchesFiniteDifferences) {
  const Outcome base = run_model(GetParam(), 1, -1, 0);
  ASSERT_TRUE(std::isfinite(base.loss));
  double largest = 0;
  int checked = 0;
  const std::size_t step = base.gradient.size() > 80 ? 7 : 3;
  for (std::size_t p = 0; p < base.gradient.size(); p += step) {
    const double h = 1e-6;
    const double up = run_model(GetParam(), 1, static_cast<std::int64_t>(p), h).loss;
    const double down = run_model(GetParam(), 1, static_cast<std::int64_t>(p), -h).loss;
    const double numeric = (up - down) / (2 * h);
    // A kink of ReLU inside the step would show as a large difference; none lies there by choice
    // of the seed.
    ASSERT_NEAR(base.gradient[p], numeric, 1e-7 + 1e-6 * std::abs(numeric)) << "parameter " << p;
    largest = std::max(largest, std::abs(numeric));
    ++checked;
  }
  EXPECT_GT(checked, 10);
  EXPECT_GT(largest, 1e-3);
}

TEST_P(GradientTest, IsTheSameOnAnyNumberOfRanks) {
  const Outcome base = run_model(GetParam(), 1, -1, 0);
  for (const int parts : {2, 3, 4, 5}) {
    const Outcome split = run_model(GetParam(), parts, -1, 0);
    EXPECT_NEAR(split.loss, base.loss, 1e-6 * std::abs(base.loss)) << parts;
    ASSERT_EQ(split.gradient.size(), base.gradient.size());
    EXPECT_EQ(split.values, base.values);
    for (std::size_t p = 0; p < base.gradient.size(); ++p) {
      ASSERT_NEAR(split.gradient[p], base.gradient[p], 1e-7) << parts << " ranks, parameter " << p;
    }
    const Outcome waiting = run_model(GetParam(), parts, -1, 0, /*overlap=*/false);
    EXPECT_EQ(waiting.loss, split.loss);
    EXPECT_EQ(waiting.gradient, split.gradient);
    // Values that share places, poisoned as soon as nothing needs them, change no bit.
    const Outcome apart = run_model(GetParam(), parts, -1, 0, true, Sharing::kNone);
    EXPECT_EQ(apart.loss, split.loss);
    EXPECT_EQ(apart.gradient, split.gradient);
  }
}

INSTANTIATE_TEST_SUITE_P(All, GradientTest, ::testing::ValuesIn(setups()));

// Values that are dropped and computed again are the same to the bit, and nothing reads a dropped
// one: dead values are poisoned.
TEST(Dropping, ChangesNoBit) {
  for (const std::string& kind : model_kinds()) {
    for (const Norm norm : {Norm::kNone, Norm::kLayer, Norm::kBatch}) {
      for (const OrderChoice order : {OrderChoice::kMultiplyFirst, OrderChoice::kAggregateFirst}) {
        ModelCase setup{.kind = kind, .norm = norm, .order = order, .layers = 7};
        for (const int parts : {1, 3}) {
          setup.dropping = {};
          const Outcome base = run_model(setup, parts, -1, 0);
          for (const Dropping& dropping :
               {Dropping{1, false}, Dropping{1, true}, Dropping{2, false}, Dropping{3, true}}) {
            setup.dropping = dropping;
            const Outcome other = run_model(setup, parts, -1, 0);
            EXPECT_EQ(other.loss, base.loss) << kind;
            EXPECT_EQ(other.gradient, base.gradient) << kind;
          }
        }
      }
    }
  }
}

// Nor do values that are stored and fetched, alone or among others that are dropped.
TEST(Offloading, ChangesNoBit) {
  std::vector<std::string> kinds = model_kinds();
  kinds.insert(kinds.end(), {"edge_scores_gat", "edge_scores_gatv2", "max", "softmax", "typed"});
  for (const std::string& kind : kinds) {
    for (const Norm norm : {Norm::kNone, Norm::kBatch}) {
      for (const OrderChoice order : {OrderChoice::kMultiplyFirst, OrderChoice::kAggregateFirst}) {
        if (order == OrderChoice::kAggregateFirst && kind != "gcn" && kind != "sage") continue;
        ModelCase setup{.kind = kind, .norm = norm, .order = order, .layers = 6};
        for (const int parts : {1, 3}) {
          setup.offloading = {};
          setup.dropping = {};
          const Outcome base = run_model(setup, parts, -1, 0);
          for (const Offloading& offloading : {Offloading{2}, kOffloadAll}) {
            setup.offloading = offloading;
            setup.dropping = {};
            const Outcome other = run_model(setup, parts, -1, 0);
            EXPECT_EQ(other.loss, base.loss) << kind;
            EXPECT_EQ(other.gradient, base.gradient) << kind;
            setup.dropping = {.last_run = 2, .keeps_aggregates = norm == Norm::kNone};
            const Outcome both = run_model(setup, parts, -1, 0);
            EXPECT_EQ(both.loss, base.loss) << kind;
            EXPECT_EQ(both.gradient, base.gradient) << kind;
          }
        }
      }
    }
  }
}

TEST(Offloading, IsSpreadEvenlyAndFetchedAsFarAheadAsItWasStored) {
  ModelConfig model;
  model.layers = 8;
  model.hidden = 16;
  const auto lines = [&](int layers) {
    model.offloading = {layers};
    const Program program =
        model_program(model.sized({.features = 8, .outputs = 4}, 1), Pass::kTraining);
    std::vector<std::string> found;
    for (Value v = 0; v < program.size(); ++v) {
      const Operation& op = program.at(v);
      if (op.rule->reach != Reach::kBeside) continue;
      const Scope& scope = program.scope_of(v);
      found.push_back(fmt::format("{} {} {}", op.rule->name, scope.layer,
                                  scope.direction == Direction::kForward ? "forward" : "backward"));
    }
    return found;
  };
  // Backward reads the output of a layer twice, first for the weight of the next one. The last two
  // layers have nothing to store: backward begins with what they give.
  EXPECT_EQ(lines(1), (std::vector<std::string>{"store 0 forward", "finish store 1 forward",
                                                "fetch 2 backward", "finish fetch 1 backward"}));
  EXPECT_EQ(lines(2), (std::vector<std::string>{"store 0 forward", "finish store 3 forward",
                                                "store 3 forward", "finish store 4 forward",
                                                "fetch 5 backward", "finish fetch 4 backward",
                                                "fetch 4 backward", "finish fetch 1 backward"}));
  EXPECT_EQ(lines(100), lines(6));
  EXPECT_EQ(lines(6).size(), 24U);
  EXPECT_TRUE(lines(0).empty());
}

TEST(Offloading, TakesLessMemoryOfDeepModels) {
  ModelConfig model;
  model.kind = "gcnii";
  model.layers = 64;
  model.hidden = 32;
  const auto layout = [&](const Offloading& offloading, const Dropping& dropping) {
    model.offloading = offloading;
    model.dropping = dropping;
    const Program program =
        model_program(model.sized({.features = 8, .outputs = 4}, 1), Pass::kTraining);
    return allocate(program, schedule(program), {.inner = 1000});
  };
  const std::int64_t one = 1000 * 32;
  // A sum and an output of each layer: what one layer holds stays, and what is on its way.
  EXPECT_LE(layout(kOffloadAll, {}).elements, 12 * one);
  EXPECT_GE(layout(kOffloadAll, {}).host_elements, 120 * one);
  EXPECT_EQ(layout({}, {}).host_elements, 0);
  // Only what is kept of dropped layers is stored.
  EXPECT_LE(layout(kOffloadAll, {2, false}).host_elements, 24 * one);
  EXPECT_LT(layout(kOffloadAll, {2, false}).elements, layout({}, {2, false}).elements);
}

TEST(Dropping, RunsGrowByHalfALayerTowardsTheFirst) {
  EXPECT_EQ(runs_of({2, false}, 10), (std::vector{3, 3, 3, 2, 2, 2, 1, 1, 0, 0}));
  EXPECT_EQ(runs_of({}, 3), (std::vector{0, 0, 0}));
  EXPECT_EQ(runs_of({5, false}, 3), (std::vector{0, 0, 0}));
}

TEST(Dropping, TakesLessMemoryOfDeepModels) {
  ModelConfig model;
  model.kind = "gcnii";
  model.layers = 64;
  model.hidden = 32;
  const auto elements = [&](const Dropping& dropping) {
    model.dropping = dropping;
    const Program program =
        model_program(model.sized({.features = 8, .outputs = 4}, 1), Pass::kTraining);
    return allocate(program, schedule(program), {.inner = 1000}).elements / (1000 * 32);
  };
  // A sum and an output of each layer; inputs of 15 runs and what one of them computes again;
  // aggregates besides.
  EXPECT_GE(elements({}), 128);
  EXPECT_LE(elements({1, false}), 24);
  EXPECT_LE(elements({1, true}), 88);
}

// The exact algebra changes what travels, never the result.
TEST(Algebra, EveryOrderGivesTheSameLossAndGradient) {
  for (const std::string& kind : model_kinds()) {
    ModelCase setup;
    setup.kind = kind;
    setup.norm = Norm::kBatch;
    const Outcome base = run_model(setup, 3, -1, 0);
    for (const OrderChoice order : {OrderChoice::kMultiplyFirst, OrderChoice::kAggregateFirst}) {
      for (const bool cache : {true, false}) {
        setup.order = order;
        setup.cache = cache;
        const Outcome other = run_model(setup, 3, -1, 0);
        EXPECT_NEAR(other.loss, base.loss, 1e-7 * std::abs(base.loss));
        for (std::size_t p = 0; p < base.gradient.size(); ++p) {
          ASSERT_NEAR(other.gradient[p], base.gradient[p], 1e-7) << kind << " parameter " << p;
        }
      }
    }
  }
}

// 592 floats per halo row for GCN 3x256 with 40 classes; aggregating first everywhere without the
// kept aggregate sends features + 4 * 256.
TEST(Algebra, CountsFloatsPerHaloRow) {
  const Csr csr = random_graph(kNodes, 4, true, false, 5);
  run_parts({csr.view(), false}, 2, [&](Transport& transport, const LocalGraphView& local) {
    TestRank rank(transport, local, "reference");
    Tensor features(*rank.backend, local.inner(), 128, DType::kF32);
    ModelConfig config;
    config.features = 128;
    config.outputs = 40;
    const auto floats = [&](OrderChoice order, bool cache) {
      config.order = order;
      config.cache_aggregate = cache;
      const Network network(model_program(config, Pass::kTraining),
                            model_program(config, Pass::kEvaluation), {}, rank.self, local,
                            features.view());
      std::int64_t total = 0;
      for (const LayerMessages& layer : network.layer_messages()) {
        total += layer.forward_columns + layer.backward_columns;
      }
      return total;
    };
    EXPECT_EQ(floats(OrderChoice::kAuto, true), 592);
    EXPECT_EQ(floats(OrderChoice::kAggregateFirst, false), 128 + 4 * 256);
    EXPECT_EQ(floats(OrderChoice::kMultiplyFirst, false), 2 * (256 + 256 + 40));
  });
}

}  // namespace
}  // namespace atl
