#include "engine/program/optimizer.hpp"

#include <cmath>
#include <numbers>

#include "engine/program/parameter_groups.hpp"

namespace atl {

namespace {

double scheduled_rate(const OptimizerConfig& config, int epoch) {
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

}  // namespace

double learning_rate_at(const OptimizerConfig& config, int epoch) {
  const double rate = scheduled_rate(config, epoch);
  return epoch < config.warmup_epochs ? rate * epoch / config.warmup_epochs : rate;
}

Optimizer::Optimizer(const OptimizerConfig& config, const ParameterStore& parameters,
                     Backend& backend)
    : config_(config), average_(config.average_decay) {
  if (config.clip_norm > 0) squared_norm_ = DeviceArray<double>(backend, 1);
  const std::vector<Parameter>& list = parameters.list();
  const std::vector<ParameterGroup> groups = parameter_groups(config.parameter_groups);
  const std::vector<int> group_of = groups_of(list, groups);
  for (std::size_t p = 0; p < list.size(); ++p) {
    const std::int64_t end = p + 1 < list.size() ? list[p + 1].offset : parameters.size();
    const bool decays = !config.decay_first_layer_only || list[p].layer == 0;
    AdamSegment segment{list[p].offset, end, decays ? config.weight_decay : 0.0};
    if (group_of[p] >= 0) {
      const ParameterGroup& group = groups[static_cast<std::size_t>(group_of[p])];
      segment.weight_decay = group.weight_decay.value_or(segment.weight_decay);
      segment.rate_factor =
          group.learning_rate.value_or(config.learning_rate) / config.learning_rate;
    }
    segments_.push_back(segment);
  }
}

EpochState Optimizer::state_of(int epoch, std::int64_t step) const {
  const AdamSpec adam;
  EpochState state;
  state.epoch = static_cast<std::uint32_t>(epoch);
  state.learning_rate = learning_rate_at(config_, epoch);
  state.first_correction = 1 - std::pow(adam.beta1, static_cast<double>(step));
  state.second_correction = 1 - std::pow(adam.beta2, static_cast<double>(step));
  return state;
}

std::span<double> Optimizer::node_norm(Backend& backend, Queue& queue, ParameterStore& parameters) {
  if (config_.clip_norm == 0 || !parameters.has_per_node()) return {};
  const std::span<double> norm = squared_norm_.span();
  const MatrixView gradients = parameters.node_gradients();
  backend.run(queue,
              kernels::Dot{
                  gradients, gradients, /*accumulate=*/false, {norm.data(), 1, 1, 1, DType::kF64}});
  return norm;
}

void Optimizer::step(Backend& backend, Queue& queue, ParameterStore& parameters,
                     const EpochState* state) {
  AdamSpec spec;
  spec.decoupled = config_.kind == OptimizerKind::kAdamW;
  spec.state = state;
  spec.segments = segments_;
  if (config_.clip_norm > 0) {
    const std::span<double> norm = squared_norm_.span();
    const MatrixView shared = parameters.shared_gradients();
    backend.run(queue, kernels::Dot{shared,
                                    shared,
                                    /*accumulate=*/parameters.has_per_node(),
                                    {norm.data(), 1, 1, 1, DType::kF64}});
    spec.squared_norm = norm.data();
    spec.most_norm = config_.clip_norm;
  }
  backend.run(queue, kernels::AdamStep{spec, parameters.values(), parameters.gradients(),
                                       parameters.first_moments(), parameters.second_moments()});
  parameters.refresh_operands(backend, queue);
  average_.add(backend, queue, parameters);
}

std::vector<std::pair<std::string, MatrixView>> Optimizer::state(ParameterStore& parameters) {
  std::vector<std::pair<std::string, MatrixView>> arrays = {
      {"adam.m.", parameters.first_moments()}, {"adam.v.", parameters.second_moments()}};
  if (average_.is_kept()) arrays.emplace_back("average.", average_.sum());
  return arrays;
}

}  // namespace atl
