// Trains one rank's part of a model: an epoch, an evaluation, and the state that both leave behind.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "engine/program/network.hpp"
#include "engine/tensor/safetensors.hpp"
#include "engine/training/epoch_profile.hpp"
#include "engine/training/metrics.hpp"
#include "engine/training/options.hpp"

namespace atl {

// What ranks wish to happen after an epoch; travels with the epoch's result, so that all of them do
// it after the same one.
struct EpochWishes {
  int signal = 0;           // end the run: the signal that asked for it
  bool checkpoint = false;  // it is time for one
  bool time_is_up = false;  // end the run: --max-time
};

// What one epoch cost and gave.
struct EpochResult {
  int epoch = 0;
  double loss = 0;                         // over all ranks, before the step
  double epoch_ms = 0;                     // slowest rank
  double exposed_comm_ms = 0;              // time blocked on messages, mean over ranks; NaN
                                           // where it is not known: in replayed epochs
  std::int64_t bytes_sent = 0;             // all ranks, gradient all-reduce included
  std::map<std::string, double> phase_ms;  // this rank, by span name
  std::optional<ExchangeReport> exchange;  // how messages travel; none: as before
  EpochWishes wishes;                      // of any rank
};

class Trainer {
 public:
  // Declares the model; allocates nothing large until allocate(). All references must outlive it.
  // device: how messages travel between devices, null: through the transport.
  Trainer(const TrainOptions& options, const RankData& data, Backend& backend, Queue& queue,
          Transport& transport, DeviceTransport* device);

  // Bytes that allocate() and the exchange buffers take on this rank.
  std::int64_t bytes_needed() const;
  // Bytes of what training can't do without: features, graph, activations that backward reads.
  std::int64_t bytes_held() const;
  void allocate();  // collective

  // Forward, loss, backward, gradient all-reduce, step. epoch is 1-based. `wishes` of this rank are
  // asked for when all that is done. Collective.
  EpochResult run_epoch(int epoch, const std::function<EpochWishes()>& wishes = {});
  // The same, never replayed; adds what the operations and phases of this rank cost.
  EpochResult profile_epoch(int epoch, EpochProfile& profile);
  // Metrics of the current weights by one forward pass with exact messages, which the next epoch
  // need not repeat where training computes the same. Collective.
  Metrics evaluate(int epoch);
  // Queues the forward pass of an evaluation and gives its logits, until anything else runs.
  // Collective.
  ConstMatrixView queue_evaluation(int epoch);

  // Throws Error{kInput} naming the epoch and a parameter if one is NaN or infinite.
  void require_finite_parameters(int epoch);

  // Parameters and batch-norm statistics by name; with `optimizer` also Adam's moments.
  SafetensorsFile state(bool optimizer);
  // Throws Error{kInput} naming `place` if a tensor is missing or has another shape.
  void load_state(const SafetensorsFile& file, bool optimizer, const std::string& place);
  // Adds what the exchange mode of each rank must remember, on rank 0. Collective.
  void add_exchange_state(SafetensorsFile& file);
  // Back again; a mode's state of another number of ranks is left out with a warning.
  void load_exchange_state(const SafetensorsFile& file, const std::string& place);

  // How messages of training travel. Another way may be put in its place between epochs.
  HaloExchange& exchange() { return *exchange_; }
  std::unique_ptr<HaloExchange> make_exchange(const ExchangeOptions& options) {
    return atl::make_exchange(options, rank_);
  }
  void swap_exchange(std::unique_ptr<HaloExchange>& exchange, bool overlap);

  Network& network() { return network_; }
  const ModelConfig& model() const { return model_; }
  TraceRecorder& trace() { return trace_; }
  const std::vector<TraceSpan>& all_spans() const { return kept_spans_; }
  const Rank& rank() const { return rank_; }
  Round round(int epoch, bool training);

  // True once epochs are replayed from a recording.
  bool replays() const { return recording_ != nullptr; }

 private:
  // Queues one epoch: forward, loss, backward, gradient all-reduce, step.
  void queue_epoch(int epoch);
  // The same by replaying it, recorded when it was first worth it; false if this can't be done.
  bool replay_epoch(int epoch);
  // Null where the device can't, or, with --cuda-graph auto, refuses to.
  std::unique_ptr<Recording> record_epoch(int epoch);
  std::int64_t bytes_sent() const;
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
  DeviceArray<EpochState> state_;
  StagingMemory host_state_;            // one EpochState on its way to state_
  ReadBackArray<std::int64_t> counts_;  // of an evaluation
  bool overlap_;
  std::unique_ptr<HaloExchange> exchange_;       // of training, by --exchange
  std::unique_ptr<HaloExchange> eval_exchange_;  // always exact
  ModelConfig model_;
  Network network_;
  Loss loss_;
  Optimizer optimizer_;
  std::unique_ptr<Recording> recording_;
  bool recording_refused_ = false;
  std::int64_t recorded_bytes_ = 0;  // sent in one replayed epoch
  int epochs_run_ = 0;
  bool profiling_ = false;
  bool forward_is_done_ = false;       // with these weights, as training would
  std::vector<TraceSpan> kept_spans_;  // of all epochs, with --trace
};

}  // namespace atl
