// What follows a convolution inside a layer: bias or norm, ReLU, dropout, forward and backward, on
// ranges of rows.
#pragma once

#include <string>

#include "engine/exchange/aggregate.hpp"
#include "engine/nn/parameters.hpp"

namespace atl {

enum class Norm { kNone, kLayer, kBatch };

struct TailConfig {
  int layer = 0;
  std::int64_t width = 0;
  Norm norm = Norm::kNone;
  bool relu = true;  // false in the last layer: no activation, no norm, no dropout
  double dropout = 0;
};

// Batch norm follows Ioffe & Szegedy 2015 with statistics over all ranks: momentum 0.1, unbiased
// running variance, epsilon 1e-5. Layer norm: Ba et al. 2016, epsilon 1e-5. A norm's shift serves
// as the bias of the convolution before it.
class LayerTail {
 public:
  LayerTail(const TailConfig& config, ParameterStore& parameters);
  void allocate(Backend& backend, Queue& queue);

  // True if the backward pass needs the input z; else output and input may share memory.
  bool keeps_input() const { return config_.norm != Norm::kNone; }
  // True if rows can only be completed once z is there for all rows of all ranks.
  bool is_barrier(const RankContext& context) const {
    return config_.norm == Norm::kBatch && context.training;
  }

  // True if the whole tail is an Epilogue, which the operation before it can apply: no norm, or
  // batch norm by running statistics.
  bool fuses(const RankContext& context) const {
    return config_.norm == Norm::kNone || (config_.norm == Norm::kBatch && !context.training);
  }
  // Before the first epilogue() of a forward pass without statistics of its own.
  void prepare_epilogue(const RankContext& context);
  // The tail of the rows of nodes `ids` (in the backend's memory) but for layer norm, which comes
  // before it.
  Epilogue epilogue(const RankContext& context, std::span<const GlobalId> ids);

  // Batch norm in training only: statistics of z [inner, F] over all ranks.
  void forward_statistics(const RankContext& context, ConstMatrixView z);
  // y = tail(z), for rows of nodes `ids`.
  void forward_rows(const RankContext& context, std::span<const GlobalId> ids, ConstMatrixView z,
                    MatrixView y);

  // Batch norm only: turns dy [inner, F] into the gradient behind ReLU and dropout, sums what the
  // backward pass of the norm needs over all ranks, adds to the gradients of its parameters.
  void backward_statistics(const RankContext& context, ConstMatrixView y, ConstMatrixView z,
                           MatrixView dy);
  // dy[range] becomes dz[range]; adds to the gradients of bias or norm. Batch norm needs
  // backward_statistics first.
  void backward_rows(const RankContext& context, RowRange range, ConstMatrixView y,
                     ConstMatrixView z, MatrixView dy);

  // Running mean and variance of batch norm, the model's state beside its parameters.
  bool has_running_statistics() const { return config_.norm == Norm::kBatch; }
  std::int64_t width() const { return config_.width; }
  DeviceArray<double>& running_mean() { return running_mean_; }          // [width]
  DeviceArray<double>& running_variance() { return running_variance_; }  // [width]
  const std::string& name() const { return name_; }

 private:
  DropoutThreshold dropout(const RankContext& context) const;
  // Back through ReLU and dropout, in place; absent where there are none.
  ActivationGradient activation(const RankContext& context, ConstMatrixView y, MatrixView dy) const;

  TailConfig config_;
  std::string name_;
  ParameterStore& parameters_;
  int gamma_ = -1;  // index of the parameter; -1 = none
  int beta_ = -1;
  DropoutThreshold dropout_;
  // Of batch norm, in the backend's memory, [width] or (sums) [2 width].
  DeviceArray<double> running_mean_, running_variance_;
  DeviceArray<double> mean_, inv_std_;  // of this training pass
  DeviceArray<double> eval_inv_std_;    // of the running variance
  DeviceArray<double> sums_;            // over the rows, then over the ranks
};

}  // namespace atl
