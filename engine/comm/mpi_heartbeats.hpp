// Small messages by which MPI processes tell each other that they run while their main threads work
// in a HeartbeatScope. Every call is made under the lock of MpiProgress, which polls.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/comm/mpi_library.hpp"
#include "engine/comm/watchdog.hpp"

namespace atl {

class MpiHeartbeats {
 public:
  using Clock = Watchdog::Clock;

  // `comm` carries nothing else. Posts a receive from every other rank.
  MpiHeartbeats(MpiComm comm, double timeout_seconds);
  // Takes the receives back; call once no rank sends any more. Without it they stay posted, as they
  // must when MPI is only waiting for the end of the job.
  void close();

  // Scopes of the job and of groups may be open at once, one of each; the members of `group` are
  // listened to.
  void begin(std::shared_ptr<const RankGroup> group, const OperationLabel& label);
  void end(const RankGroup& group);
  bool active() const { return !scopes_.empty(); }
  // How long who polls may sleep while this is active.
  Clock::duration pause() const { return pause_; }
  // Between two messages to a peer.
  Clock::duration beat() const { return beat_; }

  // Whether it is time to poll(). Cheap.
  bool is_due() const;
  // Takes in what has come and, in a scope, sends what is due. last_work: when this rank last
  // worked, or while its main thread waits for messages, when one that it waits for did.
  void poll(Clock::time_point last_work);
  // When the peer, by its rank in the job, or one that it waited for was last known to work; long
  // ago if never.
  Clock::time_point last_worked(int peer) const { return peers_[peer].last_worked; }
  // The sentence to say if others have been silent for the timeout while this rank worked in its
  // scope.
  std::optional<std::string> silence() const;

 private:
  struct Peer {
    Clock::time_point last_heard{}, last_worked{};
    // Seconds since `last_work`.
    float received = 0;
    float sent = 0;
    MpiRequest send;
  };
  struct Scope {
    std::shared_ptr<const RankGroup> group;
    OperationLabel label;
    Clock::time_point since;
  };

  void post_receive(int peer);
  void receive(Clock::time_point now);
  void send(float idle_seconds);

  const MpiCalls& mpi_;
  MpiComm comm_;
  int rank_ = 0;
  double timeout_seconds_;
  Clock::duration beat_;
  Clock::duration pause_;  // between two polls
  std::vector<Peer> peers_;
  std::vector<MpiRequest> receives_;  // by peer
  std::vector<MpiCompletion> completions_;
  std::vector<Scope> scopes_;  // open
  bool broken_ = false;        // a call of MPI failed: the transfers will say so
  Clock::time_point listening_since_{};
  Clock::time_point last_poll_{}, last_beat_{};
};

}  // namespace atl
