// The layer that GCN and GraphSAGE share: y = tail(S x W + x R), with S the normalised adjacency
// and R an optional weight for the node itself.
#pragma once

#include "engine/exchange/computed_halo.hpp"
#include "engine/nn/layer.hpp"

namespace atl {

class ConvolutionLayer final : public Layer {
 public:
  ConvolutionLayer(const LayerConfig& config, bool root_weight, const GraphOperators& operators,
                   ParameterStore& parameters, TensorArena& arena);

  std::int64_t input_rows() const override;
  std::int64_t product_elements() const override;
  std::int64_t gradient_elements() const override;
  std::int64_t aggregate_elements() const override;
  std::int64_t kept_elements() const override;
  Tensor* tail_input() override { return pre_norm_; }
  std::int64_t floats_per_halo_row(Direction direction) const override;
  const DistributedOperator& aggregated_by(Direction direction) const override;
  void forward(const RankContext& context, Tensor& product, MatrixView input,
               MatrixView output) override;
  void backward(const RankContext& context, const BackwardMemory& memory, MatrixView input,
                ConstMatrixView output) override;
  const LayerConfig& config() const override { return config_; }
  LayerTail& tail() override { return tail_; }
  bool holds_aggregate() const override { return cached_; }

 private:
  bool multiply_first() const { return config_.order == MultiplyOrder::kMultiplyFirst; }
  // Gets what rows of ComputedHalo are made from, once S x of the inner rows is there.
  void fetch_halo_inputs(const RankContext& context, ConstMatrixView input);
  // output[halo rows of ComputedHalo] as their owners compute them.
  void compute_halo(const RankContext& context, MatrixView output);
  // Aggregate-first and nothing to send: the kept S x, or no gradient wanted below.
  void backward_without_aggregate(const RankContext& context, MatrixView input,
                                  ConstMatrixView output, MatrixView dz);

  LayerConfig config_;
  const GraphOperators& operators_;
  ParameterStore& parameters_;
  int weight_ = -1;
  int root_ = -1;  // -1 = none
  LayerTail tail_;
  // Aggregate-first: S x [inner, in], kept for the weight gradient. Rows of ComputedHalo follow.
  Tensor* aggregated_ = nullptr;
  Tensor* pre_norm_ = nullptr;          // z [inner, out] where the tail's backward needs it
  bool cached_ = false;                 // aggregated_ holds S x of the constant input
  const ComputedHalo* halo_ = nullptr;  // computes_halo: the rows, else null
  Tensor* halo_input_ = nullptr;        // with a root weight: their x
  Tensor* halo_pre_norm_ = nullptr;     // their z, where a norm follows
  Tensor* halo_output_ = nullptr;       // their y before their factors
};

}  // namespace atl
