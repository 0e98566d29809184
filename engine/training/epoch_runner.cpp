#include "engine/training/epoch_runner.hpp"

#include "base/log.hpp"
#include "engine/comm/max_over_ranks.hpp"
#include "engine/training/agreement.hpp"

namespace atl {

EpochRunner::EpochRunner(const Rank& rank, Network& network, Loss& loss, Optimizer& optimizer,
                         GraphReplay wish)
    : rank_(rank),
      network_(network),
      loss_(loss),
      optimizer_(optimizer),
      wish_(wish),
      state_(rank.backend, 1),
      host_state_(allocate_staging(rank.backend, sizeof(EpochState))) {}

void EpochRunner::run(HaloExchange& exchange, const Round& round, std::int64_t step,
                      bool may_replay) {
  *static_cast<EpochState*>(host_state_.get()) = optimizer_.state_of(round.epoch, step);
  rank_.backend.copy(rank_.queue, state_.span().data(), host_state_.get(), sizeof(EpochState),
                     CopyKind::kHostToDevice);
  if (may_replay && recording_ != nullptr) {
    rank_.backend.replay(rank_.queue, *recording_);
    if (rank_.device != nullptr) rank_.device->add_bytes_sent(recorded_bytes_);
  } else {
    queue(exchange, round);
  }
  forward_is_done_ = false;
  ++epochs_run_;
}

void EpochRunner::queue(HaloExchange& exchange, const Round& round) {
  if (!forward_is_done_) network_.run_forward(exchange, round);
  network_.run_backward(exchange, round, loss_);
  network_.run_step(round, optimizer_);
}

void EpochRunner::forget_recording() {
  if (recording_ == nullptr) return;
  recording_.reset();
  rank_.trace.use_clock(clock_);
}

void EpochRunner::prepare_replay(HaloExchange& exchange, const Round& round) {
  // The first epoch caches what is constant and the second sizes what grows on demand: from the
  // third on, epochs are the same but for EpochState and for packets that change their sizes.
  constexpr int kEpochsBefore = 2;
  const bool possible = loss_.repeats() && (rank_.transport.size() == 1 || rank_.device != nullptr);
  if (wish_ == GraphReplay::kOff || !possible || recording_refused_) return;
  if (recording_ != nullptr || epochs_run_ < kEpochsBefore) return;
  if (settled_epochs(exchange, round.epoch) < kEpochsWorthRecording) return;
  clock_ = rank_.trace.clock();
  rank_.trace.use_clock(nullptr);
  forward_is_done_ = false;  // a recording has whole epochs
  recording_ = record(exchange, round);
  rank_.trace.clear();
  if (recording_ != nullptr) return;
  rank_.trace.use_clock(clock_);
  recording_refused_ = true;
}

// Slices of a group choose widths by themselves, but all ranks record or none does.
int EpochRunner::settled_epochs(const HaloExchange& exchange, int epoch) const {
  const int own = exchange.settled_epochs(epoch);
  if (rank_.group == nullptr) return own;
  double shortest = -own;
  max_over_ranks(rank_.transport, std::span(&shortest, 1), {"epochs with the same messages"});
  return static_cast<int>(-shortest);
}

std::unique_ptr<Recording> EpochRunner::record(HaloExchange& exchange, const Round& round) {
  std::unique_ptr<Recording> recording;
  try {
    on_all_ranks(rank_.transport,
                 [&] {
                   const std::int64_t before = rank_.bytes_sent();
                   recording = rank_.backend.record(rank_.queue, [&] { queue(exchange, round); });
                   recorded_bytes_ = rank_.bytes_sent() - before;
                 },
                 {"recording of an epoch", "", -1, round.epoch});
  } catch (const Error& error) {
    // A recording is a matter of speed: unless it was asked for, the run goes on without.
    if (wish_ == GraphReplay::kOn || error.kind() != ErrorKind::kDevice) throw;
    if (rank_.transport.rank() == 0) {
      log::warn("epochs are queued one by one, not replayed: {}", error.what());
    }
    return nullptr;
  }
  return recording;
}

}  // namespace atl
