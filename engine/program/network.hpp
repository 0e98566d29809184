// A model on one rank: its programs for training and evaluation, their memory, its parameters and
// other state, and the interpreter that runs them.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "engine/exchange/computed_halo.hpp"
#include "engine/exchange/halo_exchange.hpp"
#include "engine/program/allocate.hpp"
#include "engine/program/degree_factors.hpp"
#include "engine/program/loss.hpp"
#include "engine/program/node_type_rows.hpp"
#include "engine/program/optimizer.hpp"

namespace atl {

struct NetworkOptions {
  DType dtype = DType::kF32;
  Recomputation recomputation = {};    // that the programs were made for
  Sharing sharing = Sharing::kPacked;  // of memory between values
  // Tests: fills the place of a value with NaN as soon as nothing needs it any more, in the order
  // of the queue.
  bool poisons_dead_values = false;
};

// State of one batch norm in the backend's memory.
struct NormState {
  std::string name;  // "layers.0.norm"
  std::int64_t columns = 0;
  DeviceArray<double> running_mean = {};      // [columns], in checkpoints
  DeviceArray<double> running_variance = {};  // the same
  DeviceArray<double> mean = {};              // of this training pass
  DeviceArray<double> inverse_std = {};
  DeviceArray<double> running_inverse_std = {};
  DeviceArray<double> sums = {};  // [2 columns], of this rank, then of all
};

// Columns that messages of a layer have in one epoch of training, kept aggregates not counted, and
// rows that this rank sends of each.
struct LayerMessages {
  std::int64_t forward_columns = 0;
  std::int64_t backward_columns = 0;
  std::int64_t forward_rows = 0;
  std::int64_t backward_rows = 0;

  // With the padding that exact messages carry.
  std::int64_t sent_elements() const {
    return padded_columns(forward_columns) * forward_rows +
           padded_columns(backward_columns) * backward_rows;
  }
};

// Numbers of edges, or of rows, in the backend's memory, as kernels and products read them.
class EdgeFeatures {
 public:
  EdgeFeatures() = default;
  // parameters: the type of what they are multiplied by.
  EdgeFeatures(const Rank& rank, ConstDeviceArray<float> values, std::int64_t columns,
               DType parameters);
  std::span<const float> span() const { return values_.span(); }
  ConstMatrixView matrix() const;  // in the type of the parameters

 private:
  ConstDeviceArray<float> values_;
  std::int64_t columns_ = 0;
  Tensor in_f64_;  // where parameters are
};

class Network {
 public:
  // Counts and places everything; allocate() takes the memory. Both programs are of the same model
  // and fused; training is differentiated. features [inner, F] in the backend's memory, of type
  // options.dtype; they, the rank and the graph must outlive the network.
  Network(Program training, Program evaluation, const NetworkOptions& options, const Rank& rank,
          const LocalGraphView& graph, ConstMatrixView features);
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;
  ~Network();

  std::int64_t bytes() const;
  // Of bytes(), all but parameters, if `training` were the program of training; by default its own.
  std::int64_t value_bytes(const Program& training) const;
  std::int64_t value_bytes() const { return block_->bytes(); }
  // Of host memory that the program of training, or another one, keeps values in (offload.hpp).
  std::int64_t host_bytes(const Program& training) const;
  std::int64_t host_bytes() const {
    return training_.layout.host_elements * bytes_of(options_.dtype);
  }
  // At most so many bytes of buffers for messages, those of training by `training`, those of
  // evaluations by `evaluation`.
  std::int64_t buffer_bytes(const HaloExchange& training, const HaloExchange& evaluation) const;
  // Of bytes(), values that one half of an epoch leaves to the other.
  std::int64_t activation_bytes() const;
  // Takes the memory, draws the parameters, and asks other ranks for what computed rows need.
  // Collective.
  void allocate();

  // Forward, of training or evaluation as the round says, with messages by `exchange`; leaves
  // logits(). Collective.
  void run_forward(HaloExchange& exchange, const Round& round);
  // Logits [inner, outputs] of the last run_forward(), until anything else runs.
  ConstMatrixView logits() const;
  // The program's embeddings of the last run_forward() of an evaluation; [inner, columns].
  ConstMatrixView embeddings() const;
  const RankRows& rank_rows() const { return rows_; }
  // True if a forward pass of training computes what one of an evaluation does.
  bool trains_as_it_evaluates() const { return shares_forward_; }
  // Loss and gradients of this rank after run_forward() of training. Collective.
  void run_backward(HaloExchange& exchange, const Round& round, Loss& loss);
  // Sums the gradients over all ranks and updates the parameters. Collective.
  void run_step(const Round& round, Optimizer& optimizer);

  ParameterStore& parameters() { return parameters_; }
  const ParameterStore& parameters() const { return parameters_; }
  std::vector<NormState>& norms() { return norms_; }
  const Program& training() const { return training_.program; }
  const Program& evaluation() const { return evaluation_.program; }
  const Schedule& training_schedule() const { return training_.schedule; }
  // What an aggregate of a program multiplies with, and which rows travel for it.
  const DistributedOperator& operator_of(const Operation& aggregate) const;
  std::vector<LayerMessages> layer_messages() const;
  // Bytes this rank sends in one epoch of training by exact halo exchange (kept aggregates not
  // counted): the formula that the transport's counter must equal.
  std::int64_t halo_bytes_per_epoch() const;
  // Owner of the memory that messages are read from and written to.
  std::shared_ptr<const void> memory() const { return block_; }
  DType dtype() const { return options_.dtype; }

 private:
  struct Pass {
    Program program;
    Schedule schedule;
    Layout layout;
    std::vector<int> ends;  // by value: the last instant at which it is needed
  };

  // What calls find besides their operation.
  struct Execution {
    const Pass& pass;
    const Round& round;
    HaloExchange* exchange = nullptr;
    Loss* loss = nullptr;
    Optimizer* optimizer = nullptr;
  };

  Pass prepare(Program program) const;
  void run_blocks(const Execution& execution, std::span<const Block> blocks);
  void run_call(const Execution& execution, const Call& call);
  void run_small(const Execution& execution, const Operation& op);
  void run_copy(const Pass& pass, Value value);
  void run_attention(const Execution& execution, const Call& call);
  void run_relations(const Execution& execution, const Call& call);
  void run_pool(const Execution& execution, const Call& call);
  void add_returned_rows(const Execution& execution, const Call& call);
  void run_edges(const Execution& execution, const Call& call);
  void run_edge_scores(const Execution& execution, const Call& call);
  void run_by_type(const Execution& execution, const Call& call);
  void run_node_gradient(ConstMatrixView dy, MatrixView gradient);
  void sum_gradients(const Execution& execution);
  // A parameter with a row per head, and its gradient, as one row.
  ConstMatrixView row_vector(int parameter);
  MatrixView row_gradient(int parameter);
  std::span<const Block> backward_blocks() const;
  std::span<const Block> step_blocks() const;
  void poison_dead(const Pass& pass, const Block& block);
  void poison(std::int64_t from_byte, std::int64_t bytes);

  // Of an operation that reads rows of other ranks.
  Channel channel_of(const Pass& pass, Value value) const;

  // Views of values; `rows`: of the call that reads or writes them.
  MatrixView whole(const Pass& pass, Value value) const;  // inner and halo rows
  MatrixView rows_of(const Pass& pass, Value value, Rows rows) const;
  MatrixView computed_rows(const Pass& pass, Value value) const;
  std::span<const GlobalId> ids_of(Rows rows) const;
  RowRange range_of(Rows rows) const;
  Epilogue epilogue_of(const Execution& execution, const Operation& op, Rows rows);
  DropoutSpec dropout_of(const Execution& execution, const Activation& activation, Rows rows) const;
  // Through the activation of the operation called, from what it gave, or, of gelu, was given.
  ActivationGradient activation_of(const Execution& execution, const Call& call, Value from) const;
  ActivationGradient through_of(const Execution& execution, const Call& call) const;  // or absent
  ConstMatrixView parameter_row(const Pass& pass, Value value);

  NetworkOptions options_;
  const Rank& rank_;
  ConstMatrixView features_;
  ConstMatrixView node_parameters_;  // instead, where they are trained
  std::map<Normalisation, std::unique_ptr<GraphOperators>> operators_;
  // Of in-edges, where operations read them; and, where rows attend to themselves, of each inner
  // row the means over its in-edges but those from itself.
  EdgeFeatures edge_features_;
  EdgeFeatures mean_edge_features_;
  std::int64_t central_edges_ = 0;                // in-edges of central rows
  NodeTypeRows type_rows_;                        // empty where nothing reads them
  std::map<bool, DegreeFactors> degree_factors_;  // by whether nodes attend to themselves
  const ComputedHalo* computed_halo_ = nullptr;
  RankRows rows_;
  RowRange central_, marginal_;
  ParameterStore parameters_;
  std::vector<NormState> norms_;
  Pass training_;
  Pass evaluation_;
  bool shares_forward_ = false;
  const Pass* ran_ = nullptr;  // the last run_forward()
  std::shared_ptr<Tensor> block_;
  std::unique_ptr<Queue> copies_;  // beside the rank's queue; null: nothing is stored
  StagingMemory host_values_;      // what is stored
  StagingMemory poison_;
  bool has_constants_ = false;
};

}  // namespace atl
