// A layer of a model: mathematics on ranges of rows around one aggregate.
#pragma once

#include <memory>

#include "engine/nn/layer_tail.hpp"

namespace atl {

// Multiply by the weight before the aggregate (F_out columns travel) or after it (F_in columns).
enum class MultiplyOrder { kMultiplyFirst, kAggregateFirst };

struct LayerConfig {
  int index = 0;
  std::int64_t in = 0;   // columns of the input
  std::int64_t out = 0;  // columns of the output
  MultiplyOrder order = MultiplyOrder::kMultiplyFirst;
  bool constant_input = false;   // first layer without input dropout: S x never changes
  bool cache_aggregate = false;  // keep S x (constant_input and aggregate-first only)
  bool input_gradient = true;    // false in the first layer
  // Boundary recomputation (ComputedHalo): its output has those halo rows, too; its input has them,
  // and they are not fetched.
  bool computes_halo = false;  // needs cache_aggregate
  bool halo_computed = false;
  TailConfig tail;
};

// Where the backward pass of a layer finds and leaves its matrices. The model lets them lie in what
// backward has no use for any more: see Model::plan_backward.
struct BackwardMemory {
  Tensor* gradient = nullptr;        // d loss / d output [inner, out], overwritten; room for halo
  Tensor* aggregate = nullptr;       // the aggregate's input or output, whichever is not a gradient
  Tensor* input_gradient = nullptr;  // d loss / d input [inner, in]; null: not wanted
};

class Layer {
 public:
  virtual ~Layer() = default;

  // Rows that the input matrix must have: inner, plus halo if the input itself is aggregated.
  virtual std::int64_t input_rows() const = 0;
  // Elements that forward needs beside input and output, and backward as BackwardMemory's gradient
  // and aggregate.
  virtual std::int64_t product_elements() const = 0;
  virtual std::int64_t gradient_elements() const = 0;
  virtual std::int64_t aggregate_elements() const = 0;
  // What the layer keeps for backward beside its output, in elements.
  virtual std::int64_t kept_elements() const = 0;
  // The kept input of the tail, which backward reads before it writes an input gradient; null if
  // there is none.
  virtual Tensor* tail_input() = 0;
  // Floats that cross the cut per halo row in one epoch of training, and in one evaluation pass.
  virtual std::int64_t floats_per_halo_row(Direction direction) const = 0;
  // What it aggregates with; the plan says which rows travel.
  virtual const DistributedOperator& aggregated_by(Direction direction) const = 0;

  // output[inner] = layer(input). input [input_rows(), in]; its halo rows are overwritten where
  // they are fetched. product: valid inside this call only.
  virtual void forward(const RankContext& context, Tensor& product, MatrixView input,
                       MatrixView output) = 0;
  // From d loss / d output to d loss / d input. Adds to the gradients of the layer's parameters.
  virtual void backward(const RankContext& context, const BackwardMemory& memory, MatrixView input,
                        ConstMatrixView output) = 0;

  virtual const LayerConfig& config() const = 0;
  virtual LayerTail& tail() = 0;
  // True once S x of a constant input is kept: the input's halo rows are not needed any more.
  virtual bool holds_aggregate() const = 0;
};

// The makers that model.cpp lists.
std::unique_ptr<Layer> make_gcn_layer(const LayerConfig& config, const GraphOperators& operators,
                                      ParameterStore& parameters, TensorArena& arena);
std::unique_ptr<Layer> make_sage_layer(const LayerConfig& config, const GraphOperators& operators,
                                       ParameterStore& parameters, TensorArena& arena);

}  // namespace atl
