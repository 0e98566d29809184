// Adam with weight decay, parameter groups, clipping and a learning-rate schedule.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/program/weight_average.hpp"

namespace atl {

enum class LearningRateSchedule {
  kConstant,
  kCosine,  // half a cosine from the base rate to 0 over all epochs (Loshchilov & Hutter 2017)
  kStep,    // times step_factor every step_epochs epochs
};

enum class OptimizerKind {
  kAdam,   // weight decay is added to the gradient (L2)
  kAdamW,  // it shrinks the parameters (Loshchilov & Hutter 2019), as torch.optim.AdamW
};

struct OptimizerConfig {
  OptimizerKind kind = OptimizerKind::kAdam;
  double learning_rate = 0.01;
  double weight_decay = 0;
  bool decay_first_layer_only = false;
  LearningRateSchedule schedule = LearningRateSchedule::kConstant;
  int epochs = 1;         // of the whole run, for kCosine
  int step_epochs = 100;  // for kStep
  double step_factor = 0.5;
  int warmup_epochs = 0;     // in which the rate rises in equal steps to that of the schedule
  double clip_norm = 0;      // most L2 norm of all gradients together; 0: any
  double average_decay = 0;  // of the mean of weights over steps; 0: there is none
  std::string parameter_groups = {};  // see parameter_groups_problem()
};

// Learning rate of epoch `epoch` (1-based).
double learning_rate_at(const OptimizerConfig& config, int epoch);

class Optimizer {
 public:
  // Takes a number's memory if gradients are clipped. Throws Error{kOption} for parameter groups
  // that the parameters do not have.
  Optimizer(const OptimizerConfig& config, const ParameterStore& parameters, Backend& backend);
  // Bytes that allocate() takes.
  std::int64_t bytes(const ParameterStore& parameters) const { return average_.bytes(parameters); }
  // Before the first step.
  void allocate(Backend& backend, Queue& queue, ParameterStore& parameters) {
    average_.allocate(backend, queue, parameters);
  }
  // The numbers that a step in `epoch` (1-based), and dropout in it, read from the backend's
  // memory. step: its number since the start of the run, 1-based.
  EpochState state_of(int epoch, std::int64_t step) const;
  EpochState state_of(int epoch) const { return state_of(epoch, epoch); }
  // From now on the schedule goes by this rate; those of parameter groups change in proportion.
  void set_learning_rate(double rate) { config_.learning_rate = rate; }
  // Where gradients are clipped and nodes have parameters: this rank's sum of squares of those of
  // its nodes, which is to be summed over ranks before the step; else empty.
  std::span<double> node_norm(Backend& backend, Queue& queue, ParameterStore& parameters);
  // One step with the gradients in `parameters`, summed over all ranks. state: backend memory.
  void step(Backend& backend, Queue& queue, ParameterStore& parameters, const EpochState* state);
  // Flat arrays that go on from step to step beside the values, by the prefix of their parts' names
  // in checkpoints.
  std::vector<std::pair<std::string, MatrixView>> state(ParameterStore& parameters);
  WeightAverage& average() { return average_; }

 private:
  OptimizerConfig config_;
  WeightAverage average_;
  std::vector<AdamSegment> segments_;
  DeviceArray<double> squared_norm_;  // of all gradients, where they are clipped
};

}  // namespace atl
