#include "engine/program/optimizer.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/program/parameter_groups.hpp"
#include "kernels/registry.hpp"

namespace atl {
namespace {

TEST(LearningRate, FollowsItsSchedule) {
  OptimizerConfig config;
  config.learning_rate = 0.1;
  config.epochs = 100;
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 1), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 100), 0.1);
  config.schedule = LearningRateSchedule::kCosine;
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 1), 0.1);
  EXPECT_NEAR(learning_rate_at(config, 51), 0.05, 1e-12);
  EXPECT_NEAR(learning_rate_at(config, 100), 0.1 * 0.5 * (1 + std::cos(M_PI * 0.99)), 1e-12);
  config.schedule = LearningRateSchedule::kStep;
  config.step_epochs = 10;
  config.step_factor = 0.5;
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 10), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 11), 0.05);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 21), 0.025);
}

TEST(LearningRate, RisesToThatOfItsSchedule) {
  OptimizerConfig config;
  config.learning_rate = 0.1;
  config.warmup_epochs = 4;
  for (int epoch = 1; epoch <= 4; ++epoch) {
    EXPECT_DOUBLE_EQ(learning_rate_at(config, epoch), 0.1 * epoch / 4);
  }
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 5), 0.1);
  config.schedule = LearningRateSchedule::kStep;
  config.step_epochs = 2;
  config.step_factor = 0.5;
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 3), 0.05 * 3 / 4);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 5), 0.025);
}

// Two steps by hand on one scalar per parameter: Kingma & Ba 2015, algorithm 1.
TEST(Optimizer, StepsLikeAdamAndDecaysTheLayersAsked) {
  for (const std::string name : {"reference", "cpu"}) {
    const auto backend = make_backend(name, {1, -1});
    const auto queue = backend->make_queue();
    ParameterStore parameters(DType::kF32);
    const int first = parameters.declare({"first", 0, 1, 1, Initialisation::kOnes});
    const int second = parameters.declare({"second", 1, 1, 1, Initialisation::kOnes});
    parameters.allocate(*backend, *queue, 1);
    OptimizerConfig config;
    config.learning_rate = 0.1;
    config.weight_decay = 0.5;
    config.decay_first_layer_only = true;
    Optimizer optimizer(config, parameters, *backend);

    double m[2] = {0, 0};
    double v[2] = {0, 0};
    double w[2] = {1, 1};
    for (int step = 1; step <= 2; ++step) {
      const double raw = step == 1 ? 0.25 : -0.75;
      *parameters.gradient(first).row<float>(0) = static_cast<float>(raw);
      *parameters.gradient(second).row<float>(0) = static_cast<float>(raw);
      const EpochState state = optimizer.state_of(step);
      optimizer.step(*backend, *queue, parameters, &state);
      for (int p = 0; p < 2; ++p) {
        const double g = raw + (p == 0 ? 0.5 * w[p] : 0);
        m[p] = 0.9 * m[p] + 0.1 * g;
        v[p] = 0.999 * v[p] + 0.001 * g * g;
        w[p] -= 0.1 * (m[p] / (1 - std::pow(0.9, step))) /
                (std::sqrt(v[p] / (1 - std::pow(0.999, step))) + 1e-8);
      }
      EXPECT_NEAR(*parameters.value(first).row<float>(0), w[0], 1e-6) << name;
      EXPECT_NEAR(*parameters.value(second).row<float>(0), w[1], 1e-6) << name;
    }
  }
}

TEST(Optimizer, AveragesTheWeightsOfItsSteps) {
  constexpr double kDecay = 0.9;
  for (const std::string name : {"reference", "cpu"}) {
    const auto backend = make_backend(name, {1, -1});
    const auto queue = backend->make_queue();
    ParameterStore parameters(DType::kF32);
    parameters.declare({"first", 0, 3, 5, Initialisation::kGlorotUniform});
    parameters.allocate(*backend, *queue, 1);
    OptimizerConfig config;
    config.learning_rate = 0.1;
    config.average_decay = kDecay;
    Optimizer optimizer(config, parameters, *backend);
    optimizer.allocate(*backend, *queue, parameters);
    EXPECT_EQ(optimizer.bytes(parameters), 2 * parameters.size() * 4);
    float* const values = parameters.value(0).row<float>(0);
    float* const gradients = parameters.gradient(0).row<float>(0);
    std::vector<double> sum(15, 0.0);
    double weight = 0;
    for (int step = 1; step <= 5; ++step) {
      for (int i = 0; i < 15; ++i) gradients[i] = static_cast<float>(std::sin(step * i));
      const EpochState state = optimizer.state_of(step);
      optimizer.step(*backend, *queue, parameters, &state);
      const std::vector<float> own(values, values + 15);
      weight = kDecay * weight + 1;
      for (int i = 0; i < 15; ++i) sum[i] = kDecay * sum[i] + own[i];
      {
        const AveragedWeights shown(optimizer.average(), step, *backend, *queue, parameters);
        for (int i = 0; i < 15; ++i) EXPECT_NEAR(values[i], sum[i] / weight, 1e-6) << name;
      }
      EXPECT_EQ(std::vector<float>(values, values + 15), own) << name;
      const AveragedWeights none(optimizer.average(), 0, *backend, *queue, parameters);
      EXPECT_EQ(std::vector<float>(values, values + 15), own) << name;
    }
  }
}

// Steps of an optimizer on parameters that start at 1 and have gradients of 3 and 4.
struct Stepped {
  ParameterStore parameters{DType::kF64};
  std::vector<double> values;

  Stepped(const OptimizerConfig& config, const std::vector<std::string>& names, int steps = 1) {
    const auto backend = make_backend("reference", {1, -1});
    const auto queue = backend->make_queue();
    for (const std::string& name : names) {
      parameters.declare({name, 0, 1, 1, Initialisation::kOnes});
    }
    parameters.allocate(*backend, *queue, 1);
    Optimizer optimizer(config, parameters, *backend);
    for (int step = 1; step <= steps; ++step) {
      for (int p = 0; p < std::ssize(names); ++p) {
        *parameters.gradient(p).row<double>(0) = p % 2 == 0 ? 3 : 4;
      }
      const EpochState state = optimizer.state_of(step);
      optimizer.step(*backend, *queue, parameters, &state);
    }
    for (int p = 0; p < std::ssize(names); ++p) {
      values.push_back(*parameters.value(p).row<double>(0));
    }
    parameters = ParameterStore(DType::kF64);  // before its backend goes
  }
};

// Adam's first step is the rate against the gradient's sign, so AdamW's is known by heart.
TEST(Optimizer, DecoupledDecayShrinksTheParameters) {
  OptimizerConfig config;
  config.kind = OptimizerKind::kAdamW;
  config.learning_rate = 0.1;
  config.weight_decay = 0.5;
  const Stepped stepped(config, {"a"});
  EXPECT_NEAR(stepped.values[0], 1 - 0.1 * 0.5 - 0.1, 1e-8);
}

TEST(Optimizer, GroupsHaveRatesAndDecayOfTheirOwn) {
  OptimizerConfig config;
  config.kind = OptimizerKind::kAdamW;
  config.learning_rate = 0.1;
  config.weight_decay = 0.5;
  config.warmup_epochs = 2;  // halves all rates
  config.parameter_groups =
      " head.* : lr=0.4 ;layers.?.bias: weight-decay=0; *.weight: lr=1e-1, weight-decay=2;";
  const Stepped stepped(config, {"layers.0.weight", "layers.0.bias", "head.weight", "other"});
  EXPECT_NEAR(stepped.values[0], 1 - 0.05 * 2 - 0.05, 1e-8);
  EXPECT_NEAR(stepped.values[1], 1 - 0.05, 1e-8);
  EXPECT_NEAR(stepped.values[2], 1 - 0.2 * 0.5 - 0.2, 1e-8);  // the first match
  EXPECT_NEAR(stepped.values[3], 1 - 0.05 * 0.5 - 0.05, 1e-8);
}

// Gradients 3 and 4 of norm 5, clipped to 1 in the second step alone: moments by hand.
TEST(Optimizer, ClipsTheNormOfAllGradientsTogether) {
  OptimizerConfig config;
  config.learning_rate = 0.1;
  config.weight_decay = 0.25;  // comes after clipping, as in PyTorch
  config.clip_norm = 1;
  const Stepped stepped(config, {"a", "b"}, 2);
  for (int p = 0; p < 2; ++p) {
    double w = 1;
    double m = 0;
    double v = 0;
    for (int step = 1; step <= 2; ++step) {
      const double g = (p == 0 ? 3 : 4) / (5 + 1e-6) + 0.25 * w;
      m = 0.9 * m + 0.1 * g;
      v = 0.999 * v + 0.001 * g * g;
      w -= 0.1 * (m / (1 - std::pow(0.9, step))) /
           (std::sqrt(v / (1 - std::pow(0.999, step))) + 1e-8);
    }
    EXPECT_NEAR(stepped.values[static_cast<std::size_t>(p)], w, 1e-12);
  }
}

TEST(ParameterGroups, SayWhatIsWrongWithThem) {
  const auto expect_problem = [](const std::string& text, const std::string& part) {
    EXPECT_NE(parameter_groups_problem(text).find(part), std::string::npos)
        << text << ": " << parameter_groups_problem(text);
  };
  expect_problem("head.*", "'head.*'; a group is PATTERN:");
  expect_problem("head.*:", "a group is PATTERN:");
  expect_problem(": lr=1", "a group is PATTERN:");
  expect_problem("a: rate=1", "'rate=1' in the group 'a'; allowed are lr=NUMBER and weight-decay");
  expect_problem("a: lr", "'lr' in the group 'a'; allowed is a number above 0");
  expect_problem("a: lr=0", "allowed is a number above 0");
  expect_problem("a: lr=1x", "'lr=1x' in the group 'a'");
  expect_problem("a: lr=nan", "'lr=nan' in the group 'a'");
  expect_problem("a: lr=1; b: weight-decay=-1", "'weight-decay=-1' in the group 'b'; allowed is");
  EXPECT_EQ(parameter_groups_problem(""), "");
  EXPECT_EQ(parameter_groups_problem("a: lr=1, weight-decay=0;"), "");
}

TEST(ParameterGroups, RefuseWhatNamesNothing) {
  const std::vector<Parameter> parameters{{{.name = "layers.0.weight"}},
                                          {{.name = "layers.0.bias"}}};
  const auto message = [&](const std::string& text) -> std::string {
    try {
      groups_of(parameters, parameter_groups(text));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kOption);
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message("*.bias: lr=1; *: lr=2"), "");
  EXPECT_EQ(message("head.*: lr=1"),
            "--parameter-groups: 'head.*' names no parameter; there are layers.0.weight, "
            "layers.0.bias");
  EXPECT_EQ(message("*: lr=1; *.bias: lr=2"),
            "--parameter-groups: all that '*.bias' names belongs to groups before it");
}

}  // namespace
}  // namespace atl
