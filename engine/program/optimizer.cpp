#include "engine/program/optimizer.hpp"

#include <cmath>
#include <numbers>

namespace atl {

double learning_rate_at(const OptimizerConfig& config, int epoch) {
  switch (config.schedule) {
    case LearningRateSchedule::kConstant:
      return config.learning_rate;
    case LearningRateSchedule::kCosine:
      return config.learning_rate * 0.5 *
             (1 + std::cos(std::numbers::pi * (epoch - 1) / config.epochs));
    case LearningRateSchedule::kStep:
      return config.learning_rate * std::pow(config.step_factor, (epoch - 1) / config.step_epochs);
  }
  return config.learning_rate;
}

Optimizer::Optimizer(const OptimizerConfig& config, const ParameterStore& parameters)
    : config_(config) {
  const std::vector<Parameter>& list = parameters.list();
  for (std::size_t p = 0; p < list.size(); ++p) {
    const std::int64_t end = p + 1 < list.size() ? list[p + 1].offset : parameters.size();
    const bool decays = !config.decay_first_layer_only || list[p].layer == 0;
    segments_.push_back({list[p].offset, end, decays ? config.weight_decay : 0.0});
  }
}

EpochState Optimizer::state_of(int epoch) const {
  const AdamSpec adam;
  EpochState state;
  state.epoch = static_cast<std::uint32_t>(epoch);
  state.learning_rate = learning_rate_at(config_, epoch);
  state.first_correction = 1 - std::pow(adam.beta1, epoch);
  state.second_correction = 1 - std::pow(adam.beta2, epoch);
  return state;
}

void Optimizer::step(Backend& backend, Queue& queue, ParameterStore& parameters,
                     const EpochState* state) const {
  AdamSpec spec;
  spec.state = state;
  spec.segments = segments_;
  backend.adam_step(queue, spec, parameters.values(), parameters.gradients(),
                    parameters.first_moments(), parameters.second_moments());
  parameters.refresh_operands(backend, queue);
}

}  // namespace atl
