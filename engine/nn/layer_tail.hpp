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

  // True if the backward pass needs the input z; else output and input may share memory.
  bool keeps_input() const { return config_.norm != Norm::kNone; }
  // True if rows can only be completed once z is there for all rows of all ranks.
  bool is_barrier(const RankContext& context) const {
    return config_.norm == Norm::kBatch && context.training;
  }

  // Batch norm in training only: statistics of z [inner, F] over all ranks.
  void forward_statistics(const RankContext& context, ConstMatrixView z);
  // y[range] = tail(z[range]); matrices have at least the inner rows.
  void forward_rows(const RankContext& context, RowRange range, ConstMatrixView z, MatrixView y);

  // Batch norm only: turns dy [inner, F] into the gradient behind ReLU and dropout, sums what the
  // backward pass of the norm needs over all ranks, adds to the gradients of its parameters.
  void backward_statistics(const RankContext& context, ConstMatrixView y, ConstMatrixView z,
                           MatrixView dy);
  // dy[range] becomes dz[range]; adds to the gradients of bias or norm. Batch norm needs
  // backward_statistics first.
  void backward_rows(const RankContext& context, RowRange range, ConstMatrixView y,
                     ConstMatrixView z, MatrixView dy);

  // Running mean and variance of batch norm, [width] each, else empty: part of the model's state.
  std::vector<double>& running_mean() { return running_mean_; }
  std::vector<double>& running_variance() { return running_variance_; }
  const std::string& name() const { return name_; }

 private:
  Epilogue epilogue(const RankContext& context, RowRange range) const;
  DropoutThreshold dropout(const RankContext& context) const;

  TailConfig config_;
  std::string name_;
  ParameterStore& parameters_;
  int gamma_ = -1;  // index of the parameter; -1 = none
  int beta_ = -1;
  DropoutThreshold dropout_;
  std::int64_t global_rows_ = 0;  // nodes of the graph, counted with the statistics
  std::vector<double> running_mean_, running_variance_;
  std::vector<double> mean_, inv_std_;  // of this training pass
  std::vector<double> eval_inv_std_;    // of the running variance
  std::vector<double> mean_dy_, mean_dy_xhat_;
};

}  // namespace atl
