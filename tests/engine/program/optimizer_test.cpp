#include "engine/program/optimizer.hpp"

#include <gtest/gtest.h>

#include <cmath>

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

// Two steps by hand on one scalar per parameter: Kingma & Ba 2015, algorithm 1.
TEST(Optimizer, StepsLikeAdamAndDecaysTheLayersAsked) {
  for (const std::string name : {"reference", "cpu"}) {
    const auto backend = make_backend(name, {1, -1});
    const auto queue = backend->make_queue();
    ParameterStore parameters(DType::kF32);
    const int first = parameters.declare("first", 0, 1, 1, Initialisation::kOnes);
    const int second = parameters.declare("second", 1, 1, 1, Initialisation::kOnes);
    parameters.allocate(*backend, *queue, 1);
    OptimizerConfig config;
    config.learning_rate = 0.1;
    config.weight_decay = 0.5;
    config.decay_first_layer_only = true;
    const Optimizer optimizer(config, parameters);

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

}  // namespace
}  // namespace atl
