#include "engine/comm/mpi_heartbeats.hpp"

#include <algorithm>

namespace atl {

MpiHeartbeats::MpiHeartbeats(MPI_Comm comm, double timeout_seconds)
    : comm_(comm), timeout_seconds_(timeout_seconds) {
  using namespace std::chrono_literals;
  const Clock::duration timeout = Watchdog(timeout_seconds).timeout();
  beat_ = std::clamp<Clock::duration>(timeout / 8, 10ms, 2s);
  pause_ = std::min<Clock::duration>(beat_ / 4, 20ms);
  int size = 1;
  MPI_Comm_rank(comm_, &rank_);
  MPI_Comm_size(comm_, &size);
  peers_.resize(static_cast<std::size_t>(size));
  receives_.assign(peers_.size(), MPI_REQUEST_NULL);
  if (timeout_seconds_ <= 0) return;  // nobody will ever ask
  for (int peer = 0; peer < size; ++peer) post_receive(peer);
}

void MpiHeartbeats::close() {
  for (std::size_t peer = 0; peer < peers_.size(); ++peer) {
    if (receives_[peer] != MPI_REQUEST_NULL) {
      MPI_Cancel(&receives_[peer]);
      MPI_Wait(&receives_[peer], MPI_STATUS_IGNORE);
    }
    if (peers_[peer].send != MPI_REQUEST_NULL) MPI_Wait(&peers_[peer].send, MPI_STATUS_IGNORE);
  }
}

void MpiHeartbeats::begin(std::shared_ptr<const RankGroup> group, const OperationLabel& label) {
  if (timeout_seconds_ <= 0) return;
  last_poll_ = Clock::now();
  scopes_.push_back({std::move(group), label, last_poll_});
}

void MpiHeartbeats::end(const RankGroup& group) {
  std::erase_if(scopes_, [&](const Scope& scope) { return scope.group.get() == &group; });
}

bool MpiHeartbeats::is_due() const {
  return !broken_ && timeout_seconds_ > 0 && Clock::now() - last_poll_ >= pause_;
}

void MpiHeartbeats::poll(Clock::time_point last_work) {
  const Clock::time_point now = Clock::now();
  // See Watchdog::expired(): this process was stopped.
  if (now - last_poll_ > Watchdog(timeout_seconds_).timeout() / 2) listening_since_ = now;
  last_poll_ = now;
  receive(now);
  if (active() && now - last_beat_ >= beat_) {
    last_beat_ = now;
    send(std::chrono::duration<float>(now - last_work).count());
  }
}

void MpiHeartbeats::post_receive(int peer) {
  if (peer == rank_) return;
  const int code =
      MPI_Irecv(&peers_[peer].received, 1, MPI_FLOAT, peer, 0, comm_, &receives_[peer]);
  broken_ = broken_ || code != MPI_SUCCESS;
}

void MpiHeartbeats::receive(Clock::time_point now) {
  std::vector<int> indices(receives_.size());
  int completed = 0;
  const int code = MPI_Testsome(static_cast<int>(receives_.size()), receives_.data(), &completed,
                                indices.data(), MPI_STATUSES_IGNORE);
  if (code != MPI_SUCCESS) broken_ = true;
  if (broken_ || completed == MPI_UNDEFINED) return;
  for (int i = 0; i < completed; ++i) {
    Peer& peer = peers_[indices[i]];
    peer.last_heard = now;
    const auto idle = std::chrono::duration<double>(std::max(peer.received, 0.0F));
    const auto worked = now - std::chrono::duration_cast<Clock::duration>(idle);
    peer.last_worked = std::max(peer.last_worked, worked);
    post_receive(indices[i]);
  }
}

void MpiHeartbeats::send(float idle_seconds) {
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (static_cast<int>(i) == rank_ || broken_) continue;
    Peer& peer = peers_[i];
    int sent_before = 1;
    if (peer.send != MPI_REQUEST_NULL) MPI_Test(&peer.send, &sent_before, MPI_STATUS_IGNORE);
    if (sent_before == 0) continue;  // it will be heard when it is taken
    peer.sent = idle_seconds;
    const int code = MPI_Isend(&peer.sent, 1, MPI_FLOAT, static_cast<int>(i), 0, comm_, &peer.send);
    broken_ = broken_ || code != MPI_SUCCESS;
  }
}

std::optional<std::string> MpiHeartbeats::silence() const {
  if (broken_) return std::nullopt;
  const Clock::duration timeout = Watchdog(timeout_seconds_).timeout();
  for (const Scope& scope : scopes_) {
    const Clock::time_point since = std::max(listening_since_, scope.since);
    std::vector<int> silent;
    for (const int peer : scope.group->job_ranks) {
      if (peer == rank_) continue;
      const Clock::time_point last_heard = peers_[static_cast<std::size_t>(peer)].last_heard;
      if (last_poll_ - std::max(since, last_heard) >= timeout) silent.push_back(peer);
    }
    if (silent.empty()) continue;
    return describe_silence(rank_, silent, timeout_seconds_,
                            "working on " + scope.group->describe(scope.label));
  }
  return std::nullopt;
}

}  // namespace atl
