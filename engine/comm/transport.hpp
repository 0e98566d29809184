// Moves bytes between ranks; knows no graph. Every wait has a deadline: a rank that hears nothing
// from a peer for `timeout` throws Error{kTimeout} naming both ranks and the operation.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace atl {

// The purpose of a transfer, so that a message about a silent peer can say it.
struct OperationLabel {
  const char* operation = "";  // string literal: "halo exchange", "gradient all-reduce", ...
  const char* direction = "";  // "forward", "backward" or ""
  int layer = -1;              // -1 = none
  int epoch = -1;
};
// "layer 1 forward halo exchange of epoch 12"
std::string to_string(const OperationLabel& label);

// Who talks in a Transport: all ranks of the job, or some of them. Messages name ranks of the job.
struct RankGroup {
  std::string name;            // "stage 1"; empty: the whole job
  std::vector<int> job_ranks;  // of rank r of the transport its rank in the job; ascending

  // All ranks of a job.
  static std::shared_ptr<const RankGroup> whole_job(int ranks);
  int job_rank(int rank) const { return job_ranks[static_cast<std::size_t>(rank)]; }
  std::vector<int> in_job(std::vector<int> ranks) const;
  // The operation, and unless all ranks take part, who does: "layer 1 forward halo exchange of
  // epoch 4 in stage 1 (ranks 2, 3 and 5)".
  std::string describe(const OperationLabel& label) const;
};

// When one packet of an all-to-all-v travelled, or a piece of a divided one, on this host's steady
// clock.
struct PacketTimes {
  int peer = 0;
  bool received = false;  // by this rank; else sent by it
  std::int64_t bytes = 0;
  std::chrono::steady_clock::time_point posted;  // not after any byte of it left this rank
  // Seen here to have arrived whole, or, of a packet sent, its memory to be free again.
  std::chrono::steady_clock::time_point done;
};

// One all-to-all-v under way. The buffers given to it must stay alive until it is destroyed.
class PendingTransfer {
 public:
  // Destroyed unfinished it waits at most the transport's timeout; if that fails, the transport's
  // next operation throws the reason. During exception unwinding it waits for nothing and leaves
  // its requests and `keep_alive` to the transport until the job is aborted.
  virtual ~PendingTransfer() = default;
  // Blocks until the receive from some peer not yet reported is complete and returns that peer, in
  // order of arrival; -1 when all receives were reported. Peers with an empty receive are not
  // reported.
  virtual int wait_any() = 0;
  // Blocks until all receives and sends are complete; wait_any() then returns -1.
  virtual void wait_all() = 0;
  // Blocks until the pieces up to this one of all packets are received (PacketPieces); where they
  // travel whole, all of them.
  virtual void wait_pieces(int last) = 0;
  // Whether wait_all() would return at once, as far as that is known without waiting.
  virtual bool is_complete() { return false; }
  // Times of every packet, those of a peer and direction in their order; call after wait_all().
  virtual std::vector<PacketTimes> packet_times() const = 0;
};

// Packets that are to arrive piece by piece: a piece sets out when the one before it has left, side
// by side with those for other ranks. A transport may send small ones whole, with their first
// piece.
struct PacketPieces {
  int count = 1;
  // [ranks * count]: bytes of a packet up to the end of a piece. Both ends of a packet give the
  // same. Empty: all are whole.
  std::vector<std::size_t> send_ends = {};
  std::vector<std::size_t> receive_ends = {};
};

class Transport {
 public:
  virtual ~Transport() = default;

  virtual std::string name() const = 0;  // "local", "mpi"
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Whether pieces of packets arrive one after another; else packets are there at once.
  virtual bool divides_packets() const { return false; }
  // Which ranks of the job these are.
  const std::shared_ptr<const RankGroup>& group() const { return group_; }

  // Makes transports of groups: ranks that give the same number (0 or more) talk among themselves
  // by what they get. It is used like this transport; its ranks are 0, 1, ... in the order that
  // they have here. A rank that gives kNoGroup gets null.
  // * All ranks of this transport call it, in the same order as its other collectives, and each
  //   group gives one name, which is not empty (Error{kCommunication} if its ranks differ).
  // * A group may be split again, and a rank may be in groups of several splits. Transfers of all
  //   of them and of the job may be under way at once. Each has an order of calls of its own. But
  //   ranks that share two transports must not wait in them crosswise.
  // * Sums are added in the order of the group's ranks: the bits of a job of that size.
  // * Errors name ranks of the job, and the group with the operation. A rank that fails, falls
  //   silent or aborts ends the whole job, members of other groups too.
  // * A HeartbeatScope of a group is entered by its members. Whoever waits for one of them, in this
  //   or another group, waits as long as it works.
  // * What a group sends counts in its own bytes_sent() and in those of what it was split from.
  // It is used by the thread that uses this transport, and destroyed before it; nobody waits there.
  // The call sends what an all-reduce of 2 size() integers sends.
  static constexpr int kNoGroup = -1;
  std::unique_ptr<Transport> split(int group, const std::string& name);

  // Sends sends[r] to rank r and receives receives[r] from it, for all r; empty spans send nothing.
  // Sizes must match pairwise (else Error{kCommunication}). The entry of this rank itself must be
  // empty. Ranks call in the same order; several may be under way at once. `keep_alive` owns the
  // memory behind the spans: should an exception abandon the transfer, the transport holds on to
  // it, so that a late message can't land in memory that was given back.
  std::unique_ptr<PendingTransfer> all_to_all_v(std::vector<std::span<const std::byte>> sends,
                                                std::vector<std::span<std::byte>> receives,
                                                const OperationLabel& label,
                                                std::shared_ptr<const void> keep_alive = nullptr,
                                                PacketPieces pieces = {});

  // In-place sum over ranks; every rank gets the same bits, added in rank order whatever the
  // transport (floats are added in double and rounded once). Lengths must be equal on all ranks.
  // Reduce-scatter and all-gather, each one all_to_all_v; all_reduce_bytes() says what it sends.
  virtual void all_reduce(std::span<float> values, const OperationLabel& label);
  virtual void all_reduce(std::span<double> values, const OperationLabel& label);
  virtual void all_reduce(std::span<std::int64_t> values, const OperationLabel& label);
  // Every rank gets a copy of root's bytes (equal length everywhere). Root sends (size - 1) times
  // their length.
  virtual void broadcast(std::span<std::byte> bytes, int root, const OperationLabel& label);
  // Root gets the bytes of all ranks (lengths may differ), entry r from rank r; the others get an
  // empty result and send 8 bytes more than they have.
  virtual std::vector<std::vector<std::byte>> gather(std::span<const std::byte> bytes, int root,
                                                     const OperationLabel& label);
  // Returns once every rank has entered; sends size - 1 bytes.
  virtual void barrier(const OperationLabel& label);

  // Payload bytes this rank has sent since the start, collectives and groups included.
  std::int64_t bytes_sent() const { return bytes_sent_; }

  // For waits that don't go through this transport: throws Error{kCommunication} if another rank is
  // known to have failed. Never waits.
  virtual void check_peers() {}

  // Ends the whole job at once because of an error on this rank (MPI_Abort, which does not return;
  // wakes local peers, who throw, and returns).
  virtual void abort(int exit_code) noexcept = 0;

  double timeout_seconds() const { return timeout_seconds_; }

 protected:
  void set_timeout_seconds(double seconds) { timeout_seconds_ = seconds; }
  void set_group(std::shared_ptr<const RankGroup> group) { group_ = std::move(group); }

  std::int64_t bytes_sent_ = 0;  // updated by the rank's main thread only
  double timeout_seconds_ = 60;  // 0 = wait for ever

 private:
  // The work that a HeartbeatScope begins and ends; scopes inside another are left out.
  virtual void begin_work(const OperationLabel& /*label*/) {}
  virtual void end_work() {}
  virtual std::unique_ptr<PendingTransfer> do_all_to_all_v(
      std::vector<std::span<const std::byte>> sends, std::vector<std::span<std::byte>> receives,
      const OperationLabel& label, std::shared_ptr<const void> keep_alive,
      const PacketPieces& pieces) = 0;
  // On every rank of this transport once all have agreed: the transport of `members`, in which this
  // rank is `rank`, or null where it is in none. `number`: of the group.
  virtual std::unique_ptr<Transport> do_split(int number, std::shared_ptr<const RankGroup> members,
                                              int rank) = 0;

  friend class HeartbeatScope;
  int scopes_ = 0;  // open
  std::shared_ptr<const RankGroup> group_;
  Transport* parent_ = nullptr;  // what this group was split from
};

// A stretch of work on all ranks that may take longer than the timeout on one of them: reading and
// writing files, cutting a graph. The others wait for a rank as long as its process runs and its
// main thread does something else than wait for messages, or waits for a rank that does; meanwhile
// that rank ends the job as soon as another one has been silent for the timeout. This proves that a
// process runs, not that its work gets on: a disk that never answers is waited for. All ranks of
// the transport enter, and what they do in there ends with a collective, or those who are through
// would seem silent. A scope inside another is part of that.
class HeartbeatScope {
 public:
  HeartbeatScope(Transport& transport, const OperationLabel& label);
  ~HeartbeatScope();
  HeartbeatScope(const HeartbeatScope&) = delete;
  HeartbeatScope& operator=(const HeartbeatScope&) = delete;

 private:
  Transport& transport_;
};

// The values [begin, begin + count) that `rank` of `size` adds up in an all-reduce of `count`
// values.
struct ReduceBlock {
  std::size_t begin = 0;
  std::size_t count = 0;
};
ReduceBlock reduce_block(std::size_t count, int rank, int size);

// Payload bytes that `rank` of `size` sends in one all_reduce of `count` values: all values but its
// own block of the reduce-scatter, then its block to every other rank.
std::int64_t all_reduce_bytes(std::int64_t count, std::int64_t value_bytes, int rank, int size);

// `local`: P ranks as threads of this process. Runs body(transport) on every rank and returns when
// all ended; rethrows the error of the rank that failed first. The other ranks then see
// Error{kCommunication} from their next or current wait. One rank runs on the calling thread.
void run_local_ranks(int ranks, double timeout_seconds,
                     const std::function<void(Transport&)>& body);

// How the mpi transport moves transfers on while the main thread computes (docs/transport.md has
// the measurements behind the default).
struct MpiProgressOptions {
  bool thread = true;                    // poll from a thread of its own
  std::chrono::microseconds sleep{100};  // between two polls of that thread
};
// `mpi`: initialises MPI on construction of the first and duplicates the communicator; collective.
// Finalises MPI when the last one is destroyed, unless an exception is under way or a transfer was
// abandoned: then only abort_job() ends the job. Without a launcher, or with one rank, MPI stays
// untouched and a local world of one is returned. Throws Error{kCommunication} naming the MPI call.
std::unique_ptr<Transport> make_mpi_transport(double timeout_seconds,
                                              const MpiProgressOptions& progress = {});
// For main's catch, where the transport may be gone already: flushes the standard streams and ends
// all ranks of the job with this exit code (MPI_Abort if MPI is running, else only this process).
[[noreturn]] void abort_job(int exit_code) noexcept;

// Which transport runs a command, and on how many ranks.
struct TransportOptions {
  // One of transport_names(). auto and nccl: mpi under a launcher, else local; which of the two was
  // meant is for make_device_transport.
  std::string name = "auto";
  int ranks = 0;  // of `local`, 0 = 1; with mpi 0 or what the launcher started
  double timeout_seconds = 60;
};
std::vector<std::string> transport_names();  // "auto" first
// Runs body on every rank this process has to run (all of them with local, one with mpi); throws
// Error{kOption} on an unknown name or options that don't fit the launcher.
void run_ranks(const TransportOptions& options, const std::function<void(Transport&)>& body);

// Starts MPI, unless it runs or no launcher started several processes, and keeps it running for the
// life of the result, so that transports may follow one another; null without. Ends the process if
// the others don't come within a minute, or the timeout where that is longer.
std::shared_ptr<const void> start_mpi(double timeout_seconds);

// Rank, size and rank within the host as the launcher's environment says (0, 1, 0 without one).
struct LauncherInfo {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
};
// Reads the environment that mpirun (Open MPI), Hydra (MPICH) or srun (PMI-2, PMIx) leaves.
LauncherInfo launcher_info();
// True if a launcher started this process as one of several ranks, judged from the environment
// without initialising MPI.
bool launched_by_mpi();

}  // namespace atl
