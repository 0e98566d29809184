// Moves MPI transfers on: Open MPI makes no progress outside its own calls, so a thread polls while
// the main thread computes, and the main thread polls while it waits.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/comm/mpi_heartbeats.hpp"
#include "engine/comm/mpi_library.hpp"
#include "engine/comm/transport.hpp"
#include "engine/comm/watchdog.hpp"

namespace atl {

// Throws Error{kCommunication} naming the call and MPI's text unless code is 0.
void check_mpi(int code, const char* call);
std::string mpi_error_text(int code);

// One all-to-all-v under way. MPI may write to it and to what `keep_alive` owns until every request
// is complete, so it is never destroyed before.
struct MpiTransfer {
  // The bytes of one call of MPI.
  struct Chunk {
    int peer = 0;
    int bytes = 0;
    bool receive = false;
    int piece = 0;  // of the packet (PacketPieces)
  };
  // One per chunk; MpiCalls::no_request before it is posted, and once it is complete.
  std::vector<MpiRequest> requests;
  std::vector<Chunk> chunks;
  struct Packet {  // or a piece of a divided one: all its chunks
    int chunks_left = 0;
    std::int64_t bytes = 0;
    Watchdog::Clock::time_point posted{};
  };
  int pieces = 1;                       // of a packet
  std::vector<Packet> sends, receives;  // by rank, then by piece
  std::vector<int> to_receive;          // by rank: chunks that have not come
  Packet& packet_of(const Chunk& chunk) {
    return (chunk.receive ? receives
                          : sends)[static_cast<std::size_t>(chunk.peer * pieces + chunk.piece)];
  }
  // By rank: chunks to send that wait for those before them to have left.
  struct Queued {
    std::size_t index = 0;  // in `chunks`
    const std::byte* bytes = nullptr;
  };
  std::vector<std::deque<Queued>> queued;
  struct Sending {
    int chunks = 0;
    int piece = 0;
  };
  std::vector<Sending> sending;  // by rank: what is under way
  // Posts a chunk, or throws; like post_next(), with MPI's lock and while the transport lives.
  std::function<void(MpiTransfer&, const Queued&)> post;
  // As many chunks of one piece as may be under way at a time: what is in a socket can't be
  // overtaken, by heartbeats neither.
  void post_next(int peer);
  std::vector<int> pieces_left;  // by piece: chunks to receive
  int receiving_peers = 0;       // ranks of which chunks are not yet received
  std::size_t chunks_left = 0;
  std::deque<int> arrived;  // peers whose receive is complete and not yet reported
  Watchdog::Clock::time_point posted{};
  Watchdog::Clock::time_point last_sign{};
  std::vector<PacketTimes> done;  // of packets and pieces whose chunks are all complete
  std::string failure;            // of one of its requests, found by whichever thread polled
  std::shared_ptr<const RankGroup> group;  // whose ranks the chunks and packets are of
  OperationLabel label;
  std::shared_ptr<const void> keep_alive;

  std::string describe() const { return group->describe(label); }
};

class MpiProgress {
 public:
  // Serves the job and all its groups. rank: in the job. heartbeats: a communicator of the whole
  // job for nothing else. Without a thread there are none while the main thread works.
  MpiProgress(int rank, MpiComm heartbeats, double timeout_seconds,
              const MpiProgressOptions& options);
  MpiProgress(const MpiProgress&) = delete;
  MpiProgress& operator=(const MpiProgress&) = delete;
  ~MpiProgress();  // stops the thread; what is under way stays as it is

  // Starts what `post` puts into the transfer. All MPI calls of the process are serialised here.
  void start(const std::shared_ptr<MpiTransfer>& transfer,
             const std::function<void(MpiTransfer&)>& post);
  // Polls until done(transfer), which is evaluated under the lock. Throws Error{kCommunication} if
  // the transfer failed and Error{kTimeout} if nothing of it completed for the timeout, naming the
  // peers of the chunks awaited that have not worked in a HeartbeatScope either.
  enum class Awaited { kReceives, kEverything };
  void wait(MpiTransfer& transfer, Awaited awaited, const std::function<bool(MpiTransfer&)>& done);
  // Heartbeats from here to end_work(); should others of the group fall silent, the thread ends the
  // job.
  void begin_work(std::shared_ptr<const RankGroup> group, const OperationLabel& label);
  void end_work(const RankGroup& group);
  // At a clean end, when all ranks have met for the last time.
  void close_heartbeats();
  // Gives the transfer up for ever: nothing polls any more, its requests and memory stay untouched
  // until the process ends, and all later operations throw `reason`.
  void abandon(const std::shared_ptr<MpiTransfer>& transfer, const std::string& reason);
  bool abandoned() const;
  // Runs the call while nothing polls.
  void exclusively(const std::function<void()>& call);
  // The same; false if the lock was not free within a second.
  bool try_exclusively(const std::function<void()>& call);

 private:
  void run_thread();
  bool has_work_for_thread() const;
  Watchdog::Clock::time_point last_work() const;
  void poll();
  void poll(MpiTransfer& transfer);
  void complete(MpiTransfer& transfer, const MpiCompletion& completion);
  void throw_if_broken(const MpiTransfer& transfer) const;
  void fail_silent_peers(const MpiTransfer& transfer, Awaited awaited, Watchdog& watchdog) const;
  void end_job_if_others_are_silent() const;

  const MpiCalls& mpi_;
  const int rank_;
  const double timeout_seconds_;
  const MpiProgressOptions options_;
  mutable std::timed_mutex mutex_;  // of all MPI calls and everything below
  std::condition_variable_any work_;
  MpiHeartbeats heartbeats_;
  std::vector<std::shared_ptr<MpiTransfer>> active_;
  const MpiTransfer* awaited_ = nullptr;  // by the main thread, while it waits
  Watchdog::Clock::time_point started_to_wait_{};
  bool stopping_ = false;
  std::string broken_;
  std::vector<MpiCompletion> completions_;
  std::thread thread_;
};

}  // namespace atl
