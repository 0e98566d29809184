// A graph neural network as a stack of layers over one rank's part of the graph.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/nn/layer.hpp"

namespace atl {

enum class OrderChoice { kAuto, kMultiplyFirst, kAggregateFirst };

// The algebra of one layer, as a plan fixes it.
struct LayerOrder {
  MultiplyOrder order = MultiplyOrder::kMultiplyFirst;
  bool cache_aggregate = false;  // has no effect where S x changes or the layer multiplies first
};

struct ModelConfig {
  std::string kind = "gcn";  // see model_kinds()
  int layers = 3;
  std::int64_t hidden = 256;
  std::int64_t features = 0;  // input columns
  std::int64_t outputs = 0;   // logits per node
  double dropout = 0.5;
  double input_dropout = 0;
  Norm norm = Norm::kNone;
  OrderChoice order = OrderChoice::kAuto;
  bool cache_aggregate = true;           // keep S x of the first layer where its input is constant
  std::vector<LayerOrder> layer_orders;  // by layer, instead of the two above; empty: none
  Recomputation recomputation;           // of halo rows of the first layer's output
  DType dtype = DType::kF32;
};

std::vector<std::string> model_kinds();  // "gcn", "sage"
// True if its layers multiply a node's own row by a second weight. Throws Error{kOption} for an
// unknown kind.
bool has_root_weight(const std::string& kind);
// What layer `index` of a model is.
LayerConfig layer_config(const ModelConfig& config, int index);

// The chosen algebra of one layer, for logs and summaries.
struct LayerAlgebra {
  MultiplyOrder order;
  bool cached;
  std::int64_t forward_floats;  // per halo row and epoch
  std::int64_t backward_floats;
  std::int64_t forward_rows;  // that this rank sends in one epoch
  std::int64_t backward_rows;

  // With the padding that exact messages carry.
  std::int64_t sent_elements() const {
    return padded_columns(forward_floats) * forward_rows +
           padded_columns(backward_floats) * backward_rows;
  }
};

class Model {
 public:
  // Declares all tensors; allocate() takes the memory. features [inner, config.features] in the
  // backend's memory; graph and features must outlive the model. Throws Error{kOption} for an
  // unknown kind, or if rows can't be recomputed.
  Model(const ModelConfig& config, Backend& backend, Queue& queue, const LocalGraphView& graph,
        ConstMatrixView features);

  std::int64_t bytes() const { return arena_->bytes() + parameters_.bytes(); }
  // Of these, the activations of inner nodes that backward reads.
  std::int64_t activation_bytes() const;
  void allocate(std::uint64_t seed);

  // Logits [inner, outputs] of all inner nodes; valid until the next call. Collective.
  ConstMatrixView forward(const RankContext& context);
  // What forward() returned last, until backward().
  ConstMatrixView logits() const { return outputs_.back()->view(); }
  // True if a forward pass of training computes what one of an evaluation does: without dropout,
  // and without statistics of the batch.
  bool trains_as_it_evaluates() const {
    return config_.dropout == 0 && config_.input_dropout == 0 && config_.norm != Norm::kBatch;
  }
  // Where the loss writes d loss / d logits [inner, outputs] before backward().
  MatrixView logits_gradient();
  // Gradients of this rank's loss with respect to the parameters (not yet summed over ranks).
  void backward(const RankContext& context);
  // Output of layer `layer` of the last forward pass, [inner, width].
  ConstMatrixView activations(int layer);

  ParameterStore& parameters() { return parameters_; }
  std::vector<std::unique_ptr<Layer>>& layers() { return layers_; }
  const std::vector<std::unique_ptr<Layer>>& layers() const { return layers_; }
  const ModelConfig& config() const { return config_; }
  const GraphOperators& operators() const { return operators_; }
  // To be connected before forward(), if the model recomputes rows.
  GraphOperators& operators() { return operators_; }
  // Owner of all tensors that messages are read from and written to.
  std::shared_ptr<const void> memory() const { return arena_; }
  std::vector<LayerAlgebra> algebra() const;
  // Bytes this rank sends in one epoch of training by exact halo exchange (cached aggregates not
  // counted): the formula that the transport's counter must equal.
  std::int64_t halo_bytes_per_epoch() const;

 private:
  MatrixView layer_input(int index);
  // Where gradients lie: in what the backward pass has read for the last time, where that is large
  // enough, so that training takes little more memory than the activations.
  void plan_backward();

  ModelConfig config_;
  Backend& backend_;
  Queue& queue_;
  ConstMatrixView features_;
  GraphOperators operators_;
  std::shared_ptr<TensorArena> arena_;
  ParameterStore parameters_;
  std::vector<std::unique_ptr<Layer>> layers_;
  Tensor* input_ = nullptr;       // first input with halo rows or dropout; null: features as is
  std::vector<Tensor*> outputs_;  // per layer
  Tensor* product_ = nullptr;     // of one layer's forward pass
  std::vector<BackwardMemory> backward_;  // per layer
  bool input_holds_features_ = false;
};

}  // namespace atl
