// A model on one rank: its programs for training and evaluation, their memory, its parameters and
// other state, and the interpreter that runs them.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "engine/program/column_exchange.hpp"
#include "engine/program/loss.hpp"
#include "engine/program/optimizer.hpp"
#include "engine/program/rank_state.hpp"

namespace atl {

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

// The most pairs that are scored at a time on a rank, by what for.
struct MostPairs {
  std::int64_t training = 0;
  std::int64_t evaluation = 0;
};

// Bytes that a pass of training writes to a file and reads from it.
struct DiskTraffic {
  std::int64_t written = 0;
  std::int64_t read = 0;
};

class Network {
 public:
  // Counts and places everything; allocate() takes the memory. Both programs are of the same model
  // and fused; training is differentiated. features [inner, F] in the backend's memory, of type
  // options.dtype; they, the rank and the graph must outlive the network.
  Network(Program training, Program evaluation, const NetworkOptions& options, const Rank& rank,
          const LocalGraphView& graph, ConstMatrixView features);
  // Programs of pairs of `inner` rows and of rows of other ranks (Builder::finish_pairs), that read
  // parameters of another network, and add to their gradients.
  Network(Program training, Program evaluation, const NetworkOptions& options, const Rank& rank,
          ParameterStore& parameters, std::int64_t inner, const MostPairs& most);
  // Trains the model of `whole` on other graphs: with its parameters, its norms and, unless that is
  // a file and as long as it is enough, its memory, in which nothing outlives a pass but its
  // constants. `whole` must outlive it; `rank` may have other nodes for each graph. enter() comes
  // before anything runs.
  Network(Network& whole, const Rank& rank);
  // Trains it as a stage of a pipeline (stages.hpp), by another program of the model: with
  // parameters of `whole`, and with values of its own, which keep what they hold from one pass to
  // the next. chunks: where each of them ends. reserve(), allocate() and enter() as above, once.
  Network(Network& whole, Program training, Schedule places, MarginalGroups chunks,
          const Rank& rank);
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;
  ~Network();

  // Bytes beside parameters, if `training` were the program of training; by default its own.
  std::int64_t value_bytes(const Program& training) const;
  std::int64_t value_bytes() const { return values_->resident_bytes(options_.values_in_file); }
  // The same of a network that trains on other graphs: on one of the rows that it has room for; and
  // those of them that it doesn't share with the network of the whole graph.
  std::int64_t graph_value_bytes() const {
    return training_.layout.elements * bytes_of(options_.dtype);
  }
  std::int64_t own_value_bytes() const { return owns_values_ ? values_->bytes() : 0; }
  // If values lay in a file: the least of them and of mapped features in memory at a time, and what
  // the disk has to do for an epoch with more; where it trains on other graphs alone, for an
  // evaluation.
  std::int64_t least_budget() const;
  DiskTraffic disk_traffic(std::int64_t budget) const;
  // Takes out of memory what the last pass has left there, where values lie in a file; logits() and
  // constants come back when they are read. A network that trains on other graphs loses all its
  // values, where it doesn't share them.
  void rest();
  // Those of all values, wherever they lie; the same with mapped features.
  std::int64_t all_value_bytes() const { return values_->bytes(); }
  std::int64_t pageable_bytes() const {
    return all_value_bytes() + std::ssize(options_.values_in_file.features);
  }
  // Whether values lie in a file.
  bool pages() const { return paging_ != nullptr; }
  // Bytes of host memory that the program of training, or another one, keeps values in
  // (offload.hpp).
  std::int64_t host_bytes(const Program& training) const {
    return prepare(training).layout.host_elements * bytes_of(options_.dtype);
  }
  std::int64_t host_bytes() const {
    return training_.layout.host_elements * bytes_of(options_.dtype);
  }
  // Bytes of the edges that it holds beside the graph (CoveredGraph).
  std::int64_t covered_bytes() const {
    return state_.graph->covered ? state_.graph->covered->bytes() : 0;
  }
  // At most so many bytes of buffers for messages, those of training by `training`, those of
  // evaluations by `evaluation`.
  std::int64_t buffer_bytes(const HaloExchange& training, const HaloExchange& evaluation) const;
  // The part of value_bytes() that one half of an epoch leaves to the other.
  std::int64_t activation_bytes() const;
  // Before allocate(), where values lie in a file: makes it. Throws as FileMemory.
  void make_file();
  // Takes the memory, draws the parameters, and asks other ranks for what computed rows need.
  // Collective.
  void allocate();
  // Makes room for a graph of so many rows, in a network that trains on other graphs and before
  // memory is taken.
  void reserve(const RankRows& most);
  // From now on such a network trains on this graph, whose messages none covers and no groups
  // divide. features, graph: see above.
  void enter(const LocalGraphView& graph, ConstMatrixView features);
  // Such a network computes its constants anew: their memory was used.
  void forget_constants() { has_constants_ = false; }

  // Forward, of training or evaluation as the round says, with messages by `exchange`; leaves
  // logits(). Collective.
  void run_forward(HaloExchange& exchange, const Round& round);
  // Logits [inner, outputs] of the last run_forward(), or scores of pairs, until anything else
  // runs.
  ConstMatrixView logits() const { return inner_rows_of(ran_->program.logits); }
  // The program's embeddings of the last run_forward() of an evaluation; [inner, columns].
  ConstMatrixView embeddings() const { return inner_rows_of(ran_->program.embeddings); }
  const RankShape& shape() const { return state_.graph->shape; }
  // True if a forward pass of training computes what one of an evaluation does.
  bool trains_as_it_evaluates() const { return shares_forward_; }
  // Loss and gradients of this rank after run_forward() of training. Collective.
  void run_backward(HaloExchange& exchange, const Round& round, Loss& loss);
  // Scores a block of pairs, where programs are of pairs; logits() gives the scores then. In
  // training, with a loss, adds to the gradients of parameters and of rows, as the views say.
  // Traces have no spans of it: it is part of the loss, or of a ranking.
  void run_pairs(const PairViews& pairs, const Round& round, Loss* loss);
  // Sums the gradients over all ranks and updates the parameters. Collective.
  void run_step(const Round& round, Optimizer& optimizer);
  // Some calls of training, of a stage; what depends on constants alone comes first, once.
  void run_stage(std::span<const Block> blocks, const Round& round, Loss* loss,
                 Optimizer* optimizer);
  // Rows of a value of training, of a stage: what they hold, whatever ran last.
  MatrixView rows_of(Value value, RowRange range) const;

  ParameterStore& parameters() { return state_.parameters; }
  const ParameterStore& parameters() const { return state_.parameters; }
  std::vector<NormState>& norms() { return state_.norms; }
  const Program& training() const { return training_.program; }
  const Program& evaluation() const { return evaluation_.program; }
  const Schedule& training_schedule() const { return training_.schedule; }
  std::vector<LayerMessages> layer_messages() const;
  // Bytes this rank sends in one epoch of training by exact halo exchange (without kept aggregates,
  // but those of a graph that it has entered): the formula that the transport's counter must equal.
  std::int64_t halo_bytes_per_epoch() const;
  // Bytes this rank sends in one epoch of training to others that hold its part (constants as
  // above), and room for them.
  std::int64_t group_bytes_per_epoch() const;
  std::int64_t group_buffer_bytes() const;
  // Owner of the memory that messages are read from and written to.
  std::shared_ptr<const void> memory() const { return values_; }
  DType dtype() const { return options_.dtype; }

 private:
  struct Pass {
    Program program;
    Schedule schedule;
    Layout layout;
    std::vector<int> ends;  // by value: the last instant at which it is needed
  };

  // The context that calls find besides their operation.
  struct Execution {
    const Pass& pass;
    const Round& round;
    HaloExchange* exchange = nullptr;
    Loss* loss = nullptr;
    Optimizer* optimizer = nullptr;
    // The request of another program that all of it is part of; null: none, it has spans.
    const char* inside = nullptr;
    bool is_backward = false;  // sums of gradients may begin
  };
  class Runner;
  // The messages of an aggregate, until a block finishes them: of this pass, or of a later one.
  struct UnderWay {
    const Pass* pass;
    Value value;
    std::unique_ptr<PendingExchange> messages;
  };
  struct Abandoned;

  // For values in a file: what comes and leaves when.
  struct Paging {
    PagingPlan prologue, training, evaluation;
    std::unique_ptr<ValuePager> pager;  // after the plans that its threads read
  };

  Pass prepare(Program program) const;
  void reserve_values();
  // The passes that run on this graph.
  std::vector<const Pass*> passes() const;
  // The calls of blocks of a pass, if values lay in a file.
  PagingProblem paged(const Pass& pass, std::span<const Block> blocks) const;
  MatrixView values() const;  // memory of a layout
  RankViews views_of(const Pass& pass, const Round& round) const;
  void run_blocks(const Execution& execution, std::span<const Block> blocks);
  void run_call(const Execution& execution, RankViews& views, Runner& runner, const Call& call);
  void run_copy(const RankViews& views);
  void begin(const Execution& execution, Value value, const RankViews& views);
  void finish(const Pass& pass, Value value, int group);
  // Gradients of which the sum over ranks begins behind a block of training, while the rest of
  // backward runs; in the order of blocks.
  struct GradientSum {
    std::size_t block = 0;
    std::int64_t begin = 0;  // in the flat array
    std::int64_t end = 0;
  };
  std::vector<GradientSum> gradient_sums() const;
  void begin_sums(const Block& block, const Round& round);
  MatrixView part_of_gradients(std::int64_t begin, std::int64_t end);
  std::span<const Block> backward_blocks() const;
  std::span<const Block> step_blocks() const;
  ConstMatrixView inner_rows_of(Value value) const;  // of the last run_forward()
  void poison_dead(const Pass& pass, const Block& block);
  void poison(std::int64_t from_byte, std::int64_t bytes);

  NetworkOptions options_;
  const Rank& rank_;
  mutable RankState state_;  // views of constant networks are only read
  Pass training_;
  Pass evaluation_;
  bool shares_forward_ = false;
  const Pass* ran_ = nullptr;  // the last run_forward()
  std::shared_ptr<ValueMemory> values_;
  std::int64_t values_begin_ = 0;                   // in it: element where layouts begin
  bool owns_values_ = true;                         // else they are another network's
  bool trains_others_ = false;                      // graphs that it enters
  std::unique_ptr<ColumnExchange> group_exchange_;  // null: this rank holds its part alone
  std::unique_ptr<Queue> copies_;  // beside the rank's queue; null: nothing is stored
  StagingMemory host_values_;      // what is stored
  StagingMemory poison_;
  std::unique_ptr<Paging> paging_;  // null: all values are in memory
  std::vector<UnderWay> under_way_;
  std::vector<GradientSum> gradient_sums_;
  std::size_t begun_sums_ = 0;  // of these, since the last step
  bool has_constants_ = false;
};

}  // namespace atl
