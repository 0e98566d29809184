// Runs epochs of training on one rank: queues the work of each, or replays a recording of one.
#pragma once

#include <memory>

#include "engine/program/network.hpp"
#include "engine/training/options.hpp"

namespace atl {

class EpochRunner {
 public:
  // All references must outlive it. `wish`: whether epochs are recorded.
  EpochRunner(const Rank& rank, Network& network, Loss& loss, Optimizer& optimizer,
              GraphReplay wish);

  // Records the epoch that comes if from now on it can be replayed. Before run(), unless somebody
  // needs the spans of the epoch. Collective.
  void prepare_replay(HaloExchange& exchange, const Round& round);
  // Forward, loss, backward, gradient all-reduce, step. On a device all of it is only queued.
  // may_replay: as a replay of what is recorded, if anything is. step: see Optimizer. Collective.
  void run(HaloExchange& exchange, const Round& round, std::int64_t step, bool may_replay);

  // True once epochs are replayed.
  bool replays() const { return recording_ != nullptr; }
  // The next epoch differs from the one recorded: another exchange, or packets of other sizes.
  void forget_recording();
  // Whether the forward pass of the next epoch was computed already, with the weights as they are.
  void set_forward_done(bool done) { forward_is_done_ = done; }
  int epochs_run() const { return epochs_run_; }
  // The state that rounds of training and the step read: in the backend's memory, set by run().
  const EpochState* state() { return state_.span().data(); }

 private:
  void queue(HaloExchange& exchange, const Round& round);
  // The same on all ranks.
  int settled_epochs(const HaloExchange& exchange, int epoch) const;
  // On all ranks or on none. Null where some device can't, or, with --cuda-graph auto, refuses to.
  std::unique_ptr<Recording> record(HaloExchange& exchange, const Round& round);

  const Rank& rank_;
  Network& network_;
  Loss& loss_;
  Optimizer& optimizer_;
  GraphReplay wish_;
  DeviceArray<EpochState> state_;
  StagingMemory host_state_;  // one EpochState on its way to state_
  std::unique_ptr<Recording> recording_;
  SpanClock* clock_ = nullptr;  // of the trace, while epochs are replayed
  bool recording_refused_ = false;
  std::int64_t recorded_bytes_ = 0;  // sent in one replayed epoch
  int epochs_run_ = 0;
  bool forward_is_done_ = false;
};

}  // namespace atl
