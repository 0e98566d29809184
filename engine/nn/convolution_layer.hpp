// The layer that GCN and GraphSAGE share: y = tail(S x W + x R), with S the normalised adjacency
// and R an optional weight for the node itself.
#pragma once

#include "engine/nn/layer.hpp"

namespace atl {

class ConvolutionLayer final : public Layer {
 public:
  ConvolutionLayer(const LayerConfig& config, bool root_weight, const GraphOperators& operators,
                   ParameterStore& parameters, TensorArena& arena);

  std::int64_t input_rows() const override;
  std::int64_t aggregate_input_elements() const override;
  std::int64_t gradient_elements() const override;
  std::int64_t floats_per_halo_row(Direction direction) const override;
  void forward(const RankContext& context, const Scratch& scratch, MatrixView input,
               MatrixView output) override;
  void backward(const RankContext& context, const Scratch& scratch, MatrixView input,
                ConstMatrixView output, int from) override;
  const LayerConfig& config() const override { return config_; }
  LayerTail& tail() override { return tail_; }
  bool holds_aggregate() const override { return cached_; }

 private:
  bool multiply_first() const { return config_.order == MultiplyOrder::kMultiplyFirst; }
  // Aggregate-first and nothing to send: the kept S x, or no gradient wanted below.
  void backward_without_aggregate(const RankContext& context, MatrixView input,
                                  ConstMatrixView output, MatrixView dz);

  LayerConfig config_;
  const GraphOperators& operators_;
  ParameterStore& parameters_;
  int weight_ = -1;
  int root_ = -1;  // -1 = none
  LayerTail tail_;
  Tensor* aggregated_ = nullptr;  // aggregate-first: S x [inner, in], kept for the weight gradient
  Tensor* pre_norm_ = nullptr;    // z [inner, out] where the tail's backward needs it
  bool cached_ = false;           // aggregated_ holds S x of the constant input
};

}  // namespace atl
