// The running mean of a model's weights over the steps of an optimizer, which is smoother than the
// weights themselves: Polyak & Juditsky 1992; with a decay as in Kingma & Ba 2015, section 7.2.
#pragma once

#include <cstdint>

#include "engine/program/parameters.hpp"

namespace atl {

class WeightAverage {
 public:
  // decay: what a step leaves of the weight of earlier ones, in [0, 1); 0: there is no mean.
  explicit WeightAverage(double decay) : decay_(static_cast<float>(decay)) {}

  bool is_kept() const { return decay_ > 0; }
  // Bytes that allocate() takes.
  std::int64_t bytes(const ParameterStore& parameters) const;
  void allocate(Backend& backend, Queue& queue, ParameterStore& parameters);
  // Adds the weights that a step has left.
  void add(Backend& backend, Queue& queue, ParameterStore& parameters);
  // The state [1, size of the parameters]: sum over steps s of (1 - decay) decay^(now - s) w_s.
  MatrixView sum() { return sum_.view(); }

 private:
  friend class AveragedWeights;

  float decay_;
  Tensor sum_;
  Tensor own_;  // the weights themselves, while the mean is in their place
};

// Puts the mean of `steps` steps in the place of the weights for as long as it lives; does nothing
// where there is none.
class AveragedWeights {
 public:
  AveragedWeights(WeightAverage& average, std::int64_t steps, Backend& backend, Queue& queue,
                  ParameterStore& parameters);
  ~AveragedWeights();
  AveragedWeights(const AveragedWeights&) = delete;
  AveragedWeights& operator=(const AveragedWeights&) = delete;

 private:
  WeightAverage* average_ = nullptr;  // null: nothing was put there
  Backend& backend_;
  Queue& queue_;
  ParameterStore& parameters_;
};

}  // namespace atl
