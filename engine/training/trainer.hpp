// Trains one rank's part of a model: an epoch, an evaluation, and the state that both leave behind.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "engine/training/block_training.hpp"
#include "engine/training/epoch_profile.hpp"
#include "engine/training/epoch_runner.hpp"
#include "engine/training/evaluation_loss.hpp"
#include "engine/training/link_task.hpp"
#include "engine/training/metrics.hpp"
#include "engine/training/network_state.hpp"
#include "engine/training/stage_training.hpp"

namespace atl {

// Actions that ranks wish for after an epoch. They travel with its result, so that all ranks act
// after the same one.
struct EpochWishes {
  int signal = 0;           // end the run: the signal that asked for it
  bool checkpoint = false;  // it is time for one
  bool time_is_up = false;  // end the run: --max-time
};

// The cut that an epoch was trained on.
struct CutRecord {
  int number = 0;            // 0: the partition
  double edges_inside = 0;   // share of the edges that lie inside of a part
  std::optional<double> ms;  // to make it, slowest rank; none: it was there
};

// The steps of an epoch on blocks.
struct BlockRecord {
  int steps = 0;           // those of blocks without training nodes are left out
  std::int64_t edges = 0;  // that lie inside of these blocks
  double edges_kept = 0;   // their share of the graph's edges
};

// Costs and results of one epoch.
struct EpochResult {
  int epoch = 0;
  double loss = 0;                         // over all ranks, before the step
  double epoch_ms = 0;                     // slowest rank
  double exposed_comm_ms = 0;              // time blocked on messages, mean over ranks; NaN
                                           // where it is not known: in replayed epochs
  bool replayed = false;                   // from a recording
  std::int64_t bytes_sent = 0;             // all ranks, gradient all-reduce included
  std::map<std::string, double> phase_ms;  // this rank, by span name
  std::optional<ExchangeReport> exchange;  // how messages travel; none: as before
  std::optional<CutRecord> cut;            // with --repartition-every
  std::optional<BlockRecord> blocks;       // where it was trained on these
  bool last_before_switch = false;         // of the first phase
  std::optional<double> learning_rate;     // that was set in mid-run
  EpochWishes wishes;                      // of any rank
};

// The sizes that a model with so many logits per node has for a dataset.
DataSizes sizes_of(const DatasetInfo& info, std::int64_t outputs);

class Trainer {
 public:
  // Declares the model; allocates nothing large until allocate(). All references must outlive it.
  // device: how messages travel between devices, null: through the transport. group: the ranks that
  // hold this rank's part together, null: it has it alone.
  Trainer(const TrainOptions& options, const RankData& data, Backend& backend, Queue& queue,
          Transport& transport, DeviceTransport* device, const PartGroup* group = nullptr);

  // Bytes that allocate() and the exchange buffers take on this rank.
  std::int64_t bytes_needed() const {
    const std::int64_t weighted =
        NodeWeightedLoss::bytes(std::ssize(data_.node_weights()), data_.outputs(), model_.dtype);
    return value_bytes() + network_.parameters().bytes() + optimizer_.bytes(network_.parameters()) +
           buffer_bytes() +
           (links_ != nullptr ? links_->bytes()
                              : EvaluationLoss::bytes(data_, model_.dtype) + weighted) +
           (blocks_ != nullptr ? blocks_->bytes() : 0) +
           (stages_ != nullptr ? stages_->bytes() : 0);
  }
  // The part of them for values. Those of steps on blocks take turns with those of evaluations.
  std::int64_t value_bytes() const {
    const std::int64_t whole = network_.value_bytes();
    return blocks_ != nullptr ? std::max(whole, blocks_->own_value_bytes()) : whole;
  }
  // Whether the whole graph is for evaluations alone; the same on all ranks.
  bool trains_on_blocks_alone() const {
    return blocks_ != nullptr && options_.trains_on_blocks_alone();
  }
  // The part of bytes_needed() for values of a step, where that is on a block; else 0.
  std::int64_t block_value_bytes() const {
    return trains_on_blocks_alone() ? blocks_->graph_value_bytes() : 0;
  }
  // Bytes of what training can't do without: features, graph, activations that backward reads.
  std::int64_t bytes_held() const {
    return data_.bytes() + network_.covered_bytes() +
           (stages_ != nullptr         ? stages_->lasting_bytes()
            : trains_on_blocks_alone() ? blocks_->activation_bytes()
                                       : network_.activation_bytes());
  }
  // Collective.
  void allocate() {
    network_.allocate();
    optimizer_.allocate(rank_.backend, rank_.queue, network_.parameters());
    if (links_ != nullptr) links_->allocate();
    if (blocks_ != nullptr) blocks_->allocate();
    if (stages_ != nullptr) stages_->allocate();
  }

  // Forward, loss, backward, gradient all-reduce, step; on blocks, all of this for each of them.
  // epoch is 1-based. `wishes` of this rank are asked for when all that is done. Collective.
  EpochResult run_epoch(int epoch, const std::function<EpochWishes()>& wishes = {});
  // The same, never replayed; adds what the operations and phases of this rank cost.
  EpochResult profile_epoch(int epoch, EpochProfile& profile);
  // The last epoch of the first phase; 0: there is none, or it is not known yet.
  int last_before_switch() const { return last_before_switch_; }
  // Where accuracy decides, when it is known.
  void set_last_before_switch(int epoch) { last_before_switch_ = epoch; }
  bool has_switched(int epoch) const {
    return last_before_switch_ > 0 && epoch > last_before_switch_;
  }
  // Switches if this epoch is the first one after the first phase, as run_epoch() does.
  void enter_epoch(int epoch);
  // From the next epoch on: see RankJob.
  void set_gradient_sum(const SumRoute& route) { reducer_.set_route(route); }
  const SumRoute& gradient_sum() const { return reducer_.route(); }
  // From now on, in place of all rates that options say. See RankJob, which keeps it.
  void set_learning_rate(double rate) {
    rate_is_set_ = true;
    optimizer_.set_learning_rate(rate);
  }
  // True in a local phase: what is sent later is not sent yet.
  bool is_local() const { return later_exchange_ != nullptr; }
  // Metrics of the current weights, or of their mean (--average-weights), by one forward pass with
  // exact messages, which the next epoch need not repeat where training computes the same.
  // Collective.
  Metrics evaluate(int epoch, MetricExtent extent = MetricExtent::kChosen);
  // Metrics of `logits` of the last pass, queued or computed; without the loss. Collective.
  Metrics measure(int epoch, ConstMatrixView logits, MetricExtent extent);
  // The metric that the run is judged by.
  Metric metric() const { return metric_; }
  // Why a metric of a split is undefined; empty if it is defined.
  std::string undefined_reason(Split split, Metric metric) const;
  // Queues the forward pass of an evaluation and gives its logits, until anything else runs.
  // Collective.
  ConstMatrixView queue_evaluation(int epoch);

  // See network_state.hpp.
  void require_finite_parameters(int epoch) {
    atl::require_finite_parameters(network_, rank_, epoch);
  }
  // Without the optimizer, weights are those that are evaluated.
  SafetensorsFile state(bool optimizer, StateOf whole = StateOf::kFirstRank);
  SafetensorsFile with_rows_of_nodes(SafetensorsFile file) {
    return atl::with_rows_of_nodes(network_, rank_, std::move(file));
  }
  // Without the optimizer, its steps count anew.
  void load_state(const SafetensorsFile& file, bool optimizer, const std::string& place);
  void add_exchange_state(SafetensorsFile& file) {
    atl::add_exchange_state(*exchange_, rank_.transport, file);
  }
  void load_exchange_state(const SafetensorsFile& file, const std::string& place) {
    atl::load_exchange_state(*exchange_, rank_.transport, file, place);
  }

  // How messages of training travel. Another way may be put in its place between epochs.
  HaloExchange& exchange() { return *exchange_; }
  bool keeps_rows() const { return !is_local() && options_.exchange_options().keeps_rows(); }
  std::unique_ptr<HaloExchange> make_exchange(const ExchangeOptions& options) {
    return atl::make_exchange(options, slice_rank_);
  }
  void swap_exchange(std::unique_ptr<HaloExchange>& exchange, bool overlap);

  Network& network() { return network_; }
  const Network& network() const { return network_; }
  const ModelConfig& model() const { return model_; }
  const RankData& data() const { return data_; }
  // In all epochs.
  bool sends_exactly() const { return exchange_->is_exact(); }
  // This rank's in an epoch of training, by formula; on blocks, in the last one.
  std::int64_t halo_bytes_per_epoch() const {
    if (stages_ != nullptr) return stages_->sent_bytes();
    return trains_on_blocks_alone() ? blocks_->halo_bytes() : network_.halo_bytes_per_epoch();
  }
  // The same to other ranks that hold its part.
  std::int64_t group_bytes_per_epoch() const {
    if (stages_ != nullptr) return 0;
    return trains_on_blocks_alone() ? blocks_->group_bytes() : network_.group_bytes_per_epoch();
  }
  TraceRecorder& trace() { return trace_; }
  const std::vector<TraceSpan>& all_spans() const { return kept_spans_; }
  const Rank& rank() const { return rank_; }
  Round round(int epoch, bool training);

  // Which layers each rank trains; null: all.
  const StageCut* stages() const { return stages_ != nullptr ? &stages_->cut() : nullptr; }
  // True while epochs are replayed from a recording.
  bool replays() const { return runner_.replays(); }

 private:
  std::unique_ptr<Loss> make_loss();
  std::int64_t buffer_bytes() const;
  bool averages_weights() const { return options_.optimizer.average_decay > 0; }
  // Whether steps are counted and kept: the number of an epoch does not tell.
  bool counts_steps() const { return options_.blocks.any() || averages_weights(); }
  AveragedWeights averaged_weights() {
    return {optimizer_.average(), steps_, rank_.backend, rank_.queue, network_.parameters()};
  }
  // Neither of them asks for wishes, nor shares the result.
  EpochResult run_whole_graph(int epoch);
  EpochResult run_blocks(int epoch);
  EpochResult run_stages(int epoch);
  int epochs_run() const {
    return runner_.epochs_run() + (blocks_ != nullptr ? blocks_->epochs_run() : 0) +
           (stages_ != nullptr ? stages_->epochs_run() : 0);
  }
  double exposed_ms(const EpochResult& result) const;
  void share_result(EpochResult& result);
  // A span around all others since start_us, on a lane of its own.
  void record_whole(const char* name, int epoch, double start_us);
  void keep_spans();

  const TrainOptions& options_;
  const RankData& data_;
  TraceRecorder trace_;
  std::unique_ptr<SpanClock> clock_;  // of the device; null: the host's
  Reducer reducer_;
  Rank rank_;
  const Rank slice_rank_;               // rank_ as messages between parts see it
  ReadBackArray<std::int64_t> counts_;  // of an evaluation
  bool overlap_;
  std::unique_ptr<HaloExchange> exchange_;        // of training, now
  std::unique_ptr<HaloExchange> later_exchange_;  // in a local phase: by --exchange; else null
  std::unique_ptr<HaloExchange> eval_exchange_;   // always exact
  ModelConfig model_;
  Network network_;
  Metric metric_;
  LinkTask* links_ = nullptr;  // loss_, of task link-prediction
  std::unique_ptr<Loss> loss_;
  std::unique_ptr<EvaluationLoss> valid_loss_;  // from the first evaluation on; not of links
  Optimizer optimizer_;
  EpochRunner runner_;
  std::unique_ptr<BlockTraining> blocks_;  // null: training is on the whole graph
  std::unique_ptr<StageTraining> stages_;  // null: each rank has all layers
  int last_before_switch_ = 0;
  std::int64_t steps_ = 0;  // of the optimizer since the run began; without blocks one per epoch
  bool profiling_ = false;
  bool rate_is_set_ = false;           // in mid-run
  std::vector<TraceSpan> kept_spans_;  // of all epochs, with --trace
};

}  // namespace atl
