#include "engine/comm/mpi_heartbeats.hpp"

#include <algorithm>

namespace atl {

MpiHeartbeats::MpiHeartbeats(MpiComm comm, double timeout_seconds)
    : mpi_(mpi_calls()), comm_(comm), timeout_seconds_(timeout_seconds) {
  using namespace std::chrono_literals;
  const Clock::duration timeout = Watchdog(timeout_seconds).timeout();
  beat_ = std::clamp<Clock::duration>(timeout / 8, 10ms, 2s);
  pause_ = std::min<Clock::duration>(beat_ / 4, 20ms);
  int size = 1;
  mpi_.rank(comm_, &rank_);
  mpi_.size(comm_, &size);
  peers_.resize(static_cast<std::size_t>(size), {.send = mpi_.no_request});
  receives_.assign(peers_.size(), mpi_.no_request);
  completions_.resize(peers_.size());
  if (timeout_seconds_ <= 0) return;  // nobody will ever ask
  for (int peer = 0; peer < size; ++peer) post_receive(peer);
}

void MpiHeartbeats::close() {
  for (std::size_t peer = 0; peer < peers_.size(); ++peer) {
    if (receives_[peer] != mpi_.no_request) {
      mpi_.cancel(receives_[peer]);
      mpi_.wait(&receives_[peer]);
    }
    if (peers_[peer].send != mpi_.no_request) mpi_.wait(&peers_[peer].send);
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
  float& to = peers_[peer].received;
  const int code = mpi_.irecv(&to, sizeof(to), peer, 0, comm_, &receives_[peer]);
  broken_ = broken_ || code != 0;
}

void MpiHeartbeats::receive(Clock::time_point now) {
  int completed = 0;
  const int code = mpi_.test_some(static_cast<int>(receives_.size()), receives_.data(), &completed,
                                  completions_.data());
  if (code != 0) broken_ = true;
  for (int i = 0; i < completed && !broken_; ++i) {
    const MpiCompletion& completion = completions_[static_cast<std::size_t>(i)];
    if (completion.error != 0) {
      broken_ = true;
      return;
    }
    Peer& peer = peers_[completion.index];
    peer.last_heard = now;
    const auto idle = std::chrono::duration<double>(std::max(peer.received, 0.0F));
    const auto worked = now - std::chrono::duration_cast<Clock::duration>(idle);
    peer.last_worked = std::max(peer.last_worked, worked);
    post_receive(completion.index);
  }
}

void MpiHeartbeats::send(float idle_seconds) {
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (static_cast<int>(i) == rank_ || broken_) continue;
    Peer& peer = peers_[i];
    bool sent_before = true;
    if (peer.send != mpi_.no_request) mpi_.test(&peer.send, &sent_before);
    if (!sent_before) continue;  // it will be heard when it is taken
    peer.sent = idle_seconds;
    const int code =
        mpi_.isend(&peer.sent, sizeof(peer.sent), static_cast<int>(i), 0, comm_, &peer.send);
    broken_ = broken_ || code != 0;
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
