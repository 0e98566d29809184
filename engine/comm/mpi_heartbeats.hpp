// Small messages by which MPI processes tell each other that they run while their main threads work
// in a HeartbeatScope. Every call is made under the lock of MpiProgress, which polls.
#pragma once

#include <mpi.h>

#include <optional>
#include <string>
#include <vector>

#include "engine/comm/watchdog.hpp"

namespace atl {

class MpiHeartbeats {
 public:
  using Clock = Watchdog::Clock;

  // `comm` carries nothing else. Posts a receive from every other rank.
  MpiHeartbeats(MPI_Comm comm, double timeout_seconds);
  // Takes the receives back; call once no rank sends any more. Without it they stay posted, as they
  // must when MPI is only waiting for the end of the job.
  void close();

  void begin(const OperationLabel& label);
  void end() { active_ = false; }
  bool active() const { return active_; }
  // How long who polls may sleep while this is active.
  Clock::duration pause() const { return pause_; }

  // Takes in what has come and, in a scope, sends what is due. `works`: the main thread does not
  // wait for messages. Cheap if it is not yet time.
  void poll(bool works);
  // When the peer was last known to work; long ago if never.
  Clock::time_point last_worked(int peer) const { return peers_[peer].last_worked; }
  // What to say if others have been silent for the timeout while this rank worked in its scope.
  std::optional<std::string> silence() const;

 private:
  struct Peer {
    Clock::time_point last_heard{}, last_worked{};
    char received = 0;
    char sent = 0;
    MPI_Request send = MPI_REQUEST_NULL;
  };

  void post_receive(int peer);
  void receive(Clock::time_point now);
  void send(char sign);

  MPI_Comm comm_;
  int rank_ = 0;
  double timeout_seconds_;
  Clock::duration beat_;   // between two messages to a peer
  Clock::duration pause_;  // between two polls
  std::vector<Peer> peers_;
  std::vector<MPI_Request> receives_;  // by peer
  bool active_ = false;
  bool broken_ = false;  // a call of MPI failed: the transfers will say so
  OperationLabel label_;
  Clock::time_point listening_since_{};
  Clock::time_point last_poll_{}, last_beat_{};
};

}  // namespace atl
