// Adam with weight decay and a learning-rate schedule.
#pragma once

#include <string>
#include <vector>

#include "engine/program/parameters.hpp"

namespace atl {

enum class LearningRateSchedule {
  kConstant,
  kCosine,  // half a cosine from the base rate to 0 over all epochs (Loshchilov & Hutter 2017)
  kStep,    // times step_factor every step_epochs epochs
};

struct OptimizerConfig {
  double learning_rate = 0.01;
  double weight_decay = 0;  // L2, added to the gradient
  bool decay_first_layer_only = false;
  LearningRateSchedule schedule = LearningRateSchedule::kConstant;
  int epochs = 1;         // of the whole run, for kCosine
  int step_epochs = 100;  // for kStep
  double step_factor = 0.5;
};

// Learning rate of epoch `epoch` (1-based).
double learning_rate_at(const OptimizerConfig& config, int epoch);

class Optimizer {
 public:
  Optimizer(const OptimizerConfig& config, const ParameterStore& parameters);
  // What the step of `epoch` (1-based), and dropout in it, read from the backend's memory.
  EpochState state_of(int epoch) const;
  // One step with the gradients in `parameters`, summed over all ranks. state: backend memory.
  void step(Backend& backend, Queue& queue, ParameterStore& parameters,
            const EpochState* state) const;

 private:
  OptimizerConfig config_;
  std::vector<DecaySegment> segments_;
};

}  // namespace atl
