// Moves bytes between ranks; knows no graph. Every wait has a deadline: a rank that hears nothing
// from a peer for `timeout` throws Error{kTimeout} naming both ranks and the operation.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace atl {

// What a transfer is for, so that a message about a silent peer can say it.
struct OperationLabel {
  const char* operation = "";  // string literal: "halo exchange", "gradient all-reduce", ...
  const char* direction = "";  // "forward", "backward" or ""
  int layer = -1;              // -1 = none
  int epoch = -1;
};
// "layer 1 forward halo exchange of epoch 12"
std::string to_string(const OperationLabel& label);

// One all-to-all-v under way. The buffers given to it must stay alive until it is destroyed.
class PendingTransfer {
 public:
  // Destroyed unfinished it waits at most the transport's timeout; during exception unwinding it
  // waits for nothing and leaves its requests (and a copy of the buffers' ownership) to the
  // transport until the job is aborted.
  virtual ~PendingTransfer() = default;
  // Blocks until the receive from some peer not yet reported is complete and returns that peer;
  // -1 when all receives were reported. Peers with an empty receive are not reported.
  virtual int wait_any() = 0;
  // Blocks until all receives and sends are complete.
  virtual void wait_all() = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;

  virtual std::string name() const = 0;  // "local", "mpi", "nccl"
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Sends sends[r] to rank r and receives receives[r] from it, for all r; empty spans send nothing.
  // Sizes must match pairwise. The entry of this rank itself must be empty. Ranks call in the same
  // order; several may be under way at once.
  virtual std::unique_ptr<PendingTransfer> all_to_all_v(
      std::vector<std::span<const std::byte>> sends, std::vector<std::span<std::byte>> receives,
      const OperationLabel& label) = 0;

  // In-place sum over ranks; every rank gets the same bits, added in rank order whatever the
  // transport. Default: reduce-scatter and all-gather by all_to_all_v.
  virtual void all_reduce(std::span<float> values, const OperationLabel& label);
  virtual void all_reduce(std::span<double> values, const OperationLabel& label);
  virtual void all_reduce(std::span<std::int64_t> values, const OperationLabel& label);
  // Every rank gets a copy of root's bytes (equal length everywhere).
  virtual void broadcast(std::span<std::byte> bytes, int root, const OperationLabel& label);
  // Root gets the bytes of all ranks (lengths may differ); the others get an empty result.
  virtual std::vector<std::vector<std::byte>> gather(std::span<const std::byte> bytes, int root,
                                                     const OperationLabel& label);
  virtual void barrier(const OperationLabel& label);

  // Payload bytes this rank has sent since the start, collectives included.
  std::int64_t bytes_sent() const { return bytes_sent_; }

  // Ends the whole job at once because of an error on this rank (MPI_Abort; wakes local peers).
  virtual void abort(int exit_code) noexcept = 0;

  double timeout_seconds() const { return timeout_seconds_; }
  void set_timeout_seconds(double seconds) { timeout_seconds_ = seconds; }

 protected:
  std::int64_t bytes_sent_ = 0;      // updated by the rank's main thread only
  double timeout_seconds_ = 60;      // 0 = wait for ever
};

// `local`: P ranks as threads of this process. Runs body(transport) on every rank and returns when
// all ended; rethrows the error of the rank that failed first. The other ranks then see
// Error{kCommunication} from their next or current wait.
void run_local_ranks(int ranks, double timeout_seconds,
                     const std::function<void(Transport&)>& body);

// `mpi`: initialises MPI (thread level multiple) on construction of the first and duplicates the
// communicator. Outside mpirun it is a world of one.
std::unique_ptr<Transport> make_mpi_transport(double timeout_seconds);
// True if a launcher (mpirun, srun) started this process as one of several ranks, judged from the
// environment without initialising MPI.
bool launched_by_mpi();
// Rank, size and rank within the host as the launcher's environment says (0, 1, 0 without one).
struct LauncherInfo {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
};
LauncherInfo launcher_info();

}  // namespace atl
