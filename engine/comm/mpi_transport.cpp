// Ranks as MPI processes: every all-to-all-v is a set of Isend and Irecv with a tag of its own.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <thread>

#include "base/error.hpp"
#include "base/text.hpp"
#include "base/unique_handle.hpp"
#include "engine/comm/divided_packets.hpp"
#include "engine/comm/mpi_library.hpp"
#include "engine/comm/mpi_progress.hpp"
#include "engine/comm/world_of_one.hpp"

namespace atl {

namespace {

// Packets travel in chunks: MPI counts in int, and every chunk that arrives is a sign of life, so a
// slow link does not look like a silent peer.
constexpr std::size_t kChunkBytes = std::size_t{1} << 20;
// MPI guarantees tags up to 32767. Messages with the same tag arrive in the order posted, so a tag
// that comes round again does no harm: no divided transfer outlives so many others.
constexpr std::int64_t kTags = 32768;
// How long MPI_Abort may take before the process ends without it.
constexpr unsigned kAbortSeconds = 10;
// MPICH's mpiexec drops what it has not passed on when MPI_Abort is called, the reason among it.
constexpr std::chrono::milliseconds kPassedOn{200};
// How long ranks may come after one another at the start: a launcher takes its time on many hosts.
constexpr double kStartSeconds = 60;

double start_limit(double timeout_seconds) {
  return timeout_seconds > 0 ? std::max(timeout_seconds, kStartSeconds) : 0;
}

struct CommTraits {
  using Value = MpiComm;
  static Value null() { return nullptr; }
  static void release(Value comm) noexcept { mpi_calls().free(comm); }
};

// The library if it has been started and not yet ended; else null.
const MpiCalls* running_mpi() noexcept {
  const MpiCalls* const mpi = mpi_calls_in_use();
  return mpi != nullptr && mpi->initialized() && !mpi->finalized() ? mpi : nullptr;
}

// MPI from the first transport of the process to the last.
class MpiSession {
 public:
  static std::shared_ptr<MpiSession> get(double timeout_seconds) {
    static std::weak_ptr<MpiSession> current;
    auto session = current.lock();
    if (!session) {
      session = std::shared_ptr<MpiSession>(new MpiSession(timeout_seconds));
      current = session;
    }
    return session;
  }
  ~MpiSession() {
    if (!broken_) mpi_.finalize();
  }
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  // From now on the job can only be aborted.
  void set_broken() { broken_ = true; }

 private:
  explicit MpiSession(double timeout_seconds) {
    const CallLimit limit("MPI_Init_thread", start_limit(timeout_seconds));
    if (mpi_.finalized()) {
      fail(ErrorKind::kCommunication, "MPI was finalized already and can't start a second time");
    }
    int provided = 0;
    check_mpi(mpi_.init(&provided), "MPI_Init_thread");
    // Calls are serialised by MpiProgress, but come from two threads.
    if (provided < mpi_.thread_serialized) {
      mpi_.finalize();
      fail(ErrorKind::kCommunication,
           "MPI_Init_thread provides thread level {}, but MPI_THREAD_MULTIPLE ({}) or "
           "MPI_THREAD_SERIALIZED ({}) is needed: this MPI library was built without threads",
           provided, mpi_.thread_multiple, mpi_.thread_serialized);
    }
  }

  const MpiCalls& mpi_ = mpi_calls();
  bool broken_ = false;
};

class MpiPending final : public PendingTransfer {
 public:
  MpiPending(MpiProgress& progress, std::shared_ptr<MpiTransfer> transfer)
      : progress_(progress), transfer_(std::move(transfer)) {}

  ~MpiPending() override {
    if (complete_) return;
    if (std::uncaught_exceptions() > exceptions_at_start_) {
      progress_.abandon(transfer_, "a transfer was abandoned");
      return;
    }
    try {
      wait_all();
    } catch (const Error& error) {
      progress_.abandon(transfer_, error.what());
    }
  }

  int wait_any() override {
    int peer = -1;
    progress_.wait(*transfer_, MpiProgress::Awaited::kReceives, [&](MpiTransfer& transfer) {
      if (transfer.arrived.empty()) return transfer.receiving_peers == 0;
      peer = transfer.arrived.front();
      transfer.arrived.pop_front();
      return true;
    });
    return peer;
  }

  void wait_pieces(int last) override {
    progress_.wait(*transfer_, MpiProgress::Awaited::kReceives, [last](MpiTransfer& transfer) {
      const std::span pieces = std::span(transfer.pieces_left);
      const auto count = std::min(pieces.size(), static_cast<std::size_t>(last) + 1);
      return std::ranges::all_of(pieces.first(count), [](int left) { return left == 0; });
    });
  }

  void wait_all() override {
    progress_.wait(*transfer_, MpiProgress::Awaited::kEverything,
                   [](MpiTransfer& transfer) { return transfer.chunks_left == 0; });
    transfer_->arrived.clear();
    complete_ = true;
  }

  bool is_complete() override {
    bool complete = false;
    progress_.exclusively([&] { complete = transfer_->chunks_left == 0; });
    return complete;
  }

  std::vector<PacketTimes> packet_times() const override { return transfer_->done; }

 private:
  MpiProgress& progress_;
  std::shared_ptr<MpiTransfer> transfer_;
  int exceptions_at_start_ = std::uncaught_exceptions();
  bool complete_ = false;
};

class MpiTransport final : public Transport {
 public:
  MpiTransport(double timeout_seconds, const MpiProgressOptions& options)
      : session_(MpiSession::get(timeout_seconds)) {
    set_timeout_seconds(timeout_seconds);
    comm_ = duplicate_world(timeout_seconds);
    heartbeat_comm_ = duplicate_world(timeout_seconds);
    check_mpi(mpi_.rank(comm_.get(), &rank_), "MPI_Comm_rank");
    check_mpi(mpi_.size(comm_.get(), &size_), "MPI_Comm_size");
    if (const int launched = launcher_info().size; size_ != launched) {
      fail(ErrorKind::kCommunication,
           "the launcher started {} processes, but MPI sees {}: it is not the launcher of this MPI "
           "library; use its own mpirun, or srun with --mpi=pmix for Open MPI and --mpi=pmi2 for "
           "MPICH",
           launched, size_);
    }
    set_group(RankGroup::whole_job(size_));
    progress_ =
        std::make_shared<MpiProgress>(rank_, heartbeat_comm_.get(), timeout_seconds, options);
  }

  // A group of `parent` in which this rank is `rank`.
  MpiTransport(const MpiTransport& parent, UniqueHandle<CommTraits> comm,
               std::shared_ptr<const RankGroup> members, int rank)
      : session_(parent.session_),
        comm_(std::move(comm)),
        rank_(rank),
        size_(static_cast<int>(members->job_ranks.size())),
        progress_(parent.progress_) {
    set_timeout_seconds(parent.timeout_seconds());
    set_group(std::move(members));
  }

  ~MpiTransport() override {
    const bool clean =
        std::uncaught_exceptions() <= exceptions_at_start_ && !progress_->abandoned();
    if (heartbeat_comm_) {
      end_job(clean);
    } else {
      end_group(clean);
    }
  }

  std::string name() const override { return "mpi"; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  bool divides_packets() const override { return true; }

  void abort(int exit_code) noexcept override {
    // Not while the progress thread is inside MPI, unless it never comes back.
    progress_->try_exclusively([&] { abort_job(exit_code); });
    abort_job(exit_code);
  }

 private:
  void end_job(bool clean) {
    if (clean) {
      // MPI_Finalize waits for the others without a deadline, so meet them with one first.
      try {
        barrier({.operation = "end of the run"});
        progress_->close_heartbeats();
      } catch (const Error& error) {
        std::fprintf(stderr, "atoll: %s\n", printable(error.what()).c_str());
        abort(error.exit_code());
      }
    }
    progress_.reset();
    if (!clean) {
      session_->set_broken();
      comm_.leak();
      heartbeat_comm_.leak();
    }
  }

  // MPI_Comm_free waits for nobody, nor for messages that are still on their way to others.
  void end_group(bool clean) {
    clean = clean && progress_->try_exclusively([&] { comm_.reset(); });
    if (!clean) comm_.leak();
  }

  std::unique_ptr<PendingTransfer> do_all_to_all_v(std::vector<std::span<const std::byte>> sends,
                                                   std::vector<std::span<std::byte>> receives,
                                                   const OperationLabel& label,
                                                   std::shared_ptr<const void> keep_alive,
                                                   const PacketPieces& pieces) override {
    auto transfer = std::make_shared<MpiTransfer>();
    transfer->group = group();
    transfer->label = label;
    transfer->keep_alive = std::move(keep_alive);
    transfer->pieces = pieces.count;
    transfer->sends.resize(static_cast<std::size_t>(size_ * pieces.count));
    transfer->receives.resize(static_cast<std::size_t>(size_ * pieces.count));
    transfer->to_receive.resize(static_cast<std::size_t>(size_));
    transfer->queued.resize(size_);
    transfer->sending.resize(size_);
    transfer->pieces_left.resize(static_cast<std::size_t>(pieces.count));
    const int tag = static_cast<int>(next_sequence_++ % kTags);
    transfer->post = [&mpi = mpi_, comm = comm_.get(), tag](MpiTransfer& of,
                                                            const MpiTransfer::Queued& next) {
      const MpiTransfer::Chunk& chunk = of.chunks[next.index];
      MpiTransfer::Packet& packet = of.packet_of(chunk);
      if (packet.posted == Watchdog::Clock::time_point{}) packet.posted = Watchdog::Clock::now();
      check_mpi(mpi.isend(next.bytes, chunk.bytes, chunk.peer, tag, comm, &of.requests[next.index]),
                "MPI_Isend");
    };
    progress_->start(transfer, [&](MpiTransfer& started) {
      // Sends first: a message announces itself to its receiver before this rank answers what the
      // peer announced. The other way round, the peer may start to fill its socket on our answer,
      // its own answer queues behind that data, and the two directions take turns on the link.
      // Every rank starts with another peer.
      for (int step = 1; step < size_; ++step) {
        const int peer = (rank_ + step) % size_;
        post_send(started, peer, sends[peer], piece_ends(pieces, pieces.send_ends, peer));
      }
      for (int step = 1; step < size_; ++step) {
        const int peer = (rank_ + size_ - step) % size_;
        post_receive(started, peer, receives[peer], piece_ends(pieces, pieces.receive_ends, peer),
                     tag);
      }
    });
    return std::make_unique<MpiPending>(*progress_, std::move(transfer));
  }

  std::unique_ptr<Transport> do_split(int number, std::shared_ptr<const RankGroup> members,
                                      int rank) override {
    // All ranks are on their way: they have agreed on the groups.
    UniqueHandle<CommTraits> comm;
    progress_->exclusively([&] {
      const CallLimit limit("MPI_Comm_split", start_limit(timeout_seconds()));
      static_assert(kNoGroup < 0);
      MpiComm made = nullptr;
      check_mpi(mpi_.split(comm_.get(), number, rank_, &made), "MPI_Comm_split");
      comm = UniqueHandle<CommTraits>(made);
    });
    if (!comm) return nullptr;
    return std::make_unique<MpiTransport>(*this, std::move(comm), std::move(members), rank);
  }

  void begin_work(const OperationLabel& label) override { progress_->begin_work(group(), label); }
  void end_work() override { progress_->end_work(*group()); }

  static UniqueHandle<CommTraits> duplicate_world(double timeout_seconds) {
    const CallLimit limit("MPI_Comm_dup", start_limit(timeout_seconds));
    MpiComm duplicate = nullptr;
    check_mpi(mpi_calls().duplicate_world(&duplicate), "MPI_Comm_dup");
    return UniqueHandle<CommTraits>(duplicate);
  }

  // By piece of the packet, where it ends; empty: it travels whole.
  static std::span<const std::size_t> piece_ends(const PacketPieces& pieces,
                                                 std::span<const std::size_t> ends, int peer) {
    const auto count = static_cast<std::size_t>(pieces.count);
    if (ends.empty()) return {};
    const auto of_peer = ends.subspan(static_cast<std::size_t>(peer) * count, count);
    return of_peer.back() < kLeastDividedBytes ? std::span<const std::size_t>() : of_peer;
  }

  // Calls take(bytes, piece) for each chunk of a packet.
  template <typename Byte, typename Take>
  static void for_each_chunk(std::span<Byte> packet, std::span<const std::size_t> ends,
                             const Take& take) {
    const std::size_t whole[] = {packet.size()};
    if (ends.empty()) ends = whole;
    std::size_t begin = 0;
    for (std::size_t piece = 0; piece < ends.size(); ++piece) {
      while (begin < ends[piece]) {
        const auto chunk = packet.subspan(begin, std::min(ends[piece] - begin, kChunkBytes));
        take(chunk, static_cast<int>(piece));
        begin += chunk.size();
      }
    }
  }

  void post_receive(MpiTransfer& transfer, int peer, std::span<std::byte> bytes,
                    std::span<const std::size_t> ends, int tag) {
    if (!bytes.empty()) ++transfer.receiving_peers;
    for_each_chunk(bytes, ends, [&](std::span<std::byte> chunk, int piece) {
      const int count = static_cast<int>(chunk.size());
      MpiRequest request = mpi_.no_request;
      check_mpi(mpi_.irecv(chunk.data(), count, peer, tag, comm_.get(), &request), "MPI_Irecv");
      const MpiTransfer::Chunk added{peer, count, true, piece};
      add_chunk(transfer, request, added);
      transfer.packet_of(added).posted = transfer.posted;
      ++transfer.to_receive[static_cast<std::size_t>(peer)];
      ++transfer.pieces_left[static_cast<std::size_t>(piece)];
    });
  }

  // The first chunks of a packet, or of the first piece of a divided one.
  void post_send(MpiTransfer& transfer, int peer, std::span<const std::byte> bytes,
                 std::span<const std::size_t> ends) {
    for_each_chunk(bytes, ends, [&](std::span<const std::byte> chunk, int piece) {
      transfer.queued[static_cast<std::size_t>(peer)].push_back(
          {transfer.requests.size(), chunk.data()});
      add_chunk(transfer, mpi_.no_request, {peer, static_cast<int>(chunk.size()), false, piece});
    });
    transfer.post_next(peer);
  }

  static void add_chunk(MpiTransfer& transfer, MpiRequest request, MpiTransfer::Chunk chunk) {
    transfer.requests.push_back(request);
    transfer.chunks.push_back(chunk);
    ++transfer.chunks_left;
    MpiTransfer::Packet& packet = transfer.packet_of(chunk);
    ++packet.chunks_left;
    packet.bytes += chunk.bytes;
  }

  std::shared_ptr<MpiSession> session_;
  const MpiCalls& mpi_ = mpi_calls();
  UniqueHandle<CommTraits> comm_;
  UniqueHandle<CommTraits> heartbeat_comm_;  // of the job; none in a group
  int rank_ = 0;
  int size_ = 1;
  std::int64_t next_sequence_ = 0;
  std::shared_ptr<MpiProgress> progress_;  // of the job and its groups
  int exceptions_at_start_ = std::uncaught_exceptions();
};

}  // namespace

std::unique_ptr<Transport> make_mpi_transport(double timeout_seconds,
                                              const MpiProgressOptions& progress) {
  if (!launched_by_mpi()) return make_world_of_one(timeout_seconds);
  return std::make_unique<MpiTransport>(timeout_seconds, progress);
}

std::shared_ptr<const void> start_mpi(double timeout_seconds) {
  if (!launched_by_mpi()) return nullptr;
  return MpiSession::get(timeout_seconds);
}

void abort_job(int exit_code) noexcept {
  std::fflush(nullptr);
  if (const MpiCalls* const mpi = running_mpi()) {
    if (std::getenv("PMI_RANK") != nullptr) std::this_thread::sleep_for(kPassedOn);
    ::alarm(kAbortSeconds);  // should MPI_Abort itself hang: SIGALRM ends the process
    mpi->abort_world(exit_code);
  }
  std::_Exit(exit_code);
}

}  // namespace atl
