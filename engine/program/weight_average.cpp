#include "engine/program/weight_average.hpp"

#include <cmath>

namespace atl {

namespace {

// y = a x + b z.
void combine(Backend& backend, Queue& queue, double a, ConstMatrixView x, double b,
             ConstMatrixView z, MatrixView y) {
  backend.run(queue, kernels::Combine{static_cast<float>(a), x, static_cast<float>(b), z, y});
}

}  // namespace

std::int64_t WeightAverage::bytes(const ParameterStore& parameters) const {
  return is_kept() ? 2 * parameters.size() * bytes_of(parameters.dtype()) : 0;
}

void WeightAverage::allocate(Backend& backend, Queue& queue, ParameterStore& parameters) {
  if (!is_kept()) return;
  for (Tensor* const flat : {&sum_, &own_}) {
    *flat = Tensor(backend, 1, parameters.size(), parameters.dtype());
    backend.run(queue, kernels::FillZero{flat->view()});
  }
}

void WeightAverage::add(Backend& backend, Queue& queue, ParameterStore& parameters) {
  if (!is_kept()) return;
  combine(backend, queue, decay_, sum(), 1.0F - decay_, parameters.values(), sum());
}

AveragedWeights::AveragedWeights(WeightAverage& average, std::int64_t steps, Backend& backend,
                                 Queue& queue, ParameterStore& parameters)
    : backend_(backend), queue_(queue), parameters_(parameters) {
  if (!average.is_kept() || steps == 0) return;
  average_ = &average;
  const MatrixView values = parameters.values();
  combine(backend, queue, 1, values, 0, values, average.own_.view());
  // The sum began at 0, as Adam's moments do.
  const double share = 1 - std::pow(double{average.decay_}, static_cast<double>(steps));
  combine(backend, queue, 1 / share, average.sum(), 0, average.sum(), values);
  parameters.refresh_operands(backend, queue);
}

AveragedWeights::~AveragedWeights() {
  if (average_ == nullptr) return;
  const ConstMatrixView own = average_->own_.view();
  combine(backend_, queue_, 1, own, 0, own, parameters_.values());
  parameters_.refresh_operands(backend_, queue_);
}

}  // namespace atl
