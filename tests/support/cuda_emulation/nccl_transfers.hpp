// Messages between the ranks of an emulated NCCL communicator, as work of streams. All functions
// want the emulator's lock held.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/cuda_emulation/stream.hpp"

namespace atl::cuda_emulation {

class TransferOperation;

// One ncclSend or ncclRecv.
struct Transfer {
  bool is_send;
  char* buffer;
  std::size_t bytes;
  int peer;
  bool done = false;
  TransferOperation* operation = nullptr;  // set while it waits in a channel
};

// Transfers from one rank to another, in the order of the calls: the first waiting send belongs to
// the first waiting receive, and so on.
struct Channel {
  std::deque<std::shared_ptr<Transfer>> sends, receives;
};

// A rank's call of ncclCommSplit.
struct SplitRequest {
  ncclComm* parent;
  int color;
  int key;
  bool blocking;
  ncclComm_t* made;
};

// The ranks that were made with one ncclUniqueId, or by one split with one color.
struct World {
  int size = 0;
  std::vector<ncclComm*> members;  // null until the rank has joined
  ncclResult_t error = ncclSuccess;
  std::map<std::pair<int, int>, Channel> channels;  // by sender and receiver
  std::map<int, std::vector<SplitRequest>> splits;  // by their number, those that lack ranks
  bool complete() const;
};

// The sends and receives of one group on one stream: complete when all of them are.
class TransferOperation : public Operation {
 public:
  TransferOperation(ncclComm& comm, std::vector<Transfer> transfers,
                    std::shared_ptr<void> captured = nullptr);
  ~TransferOperation() override;
  TransferOperation(const TransferOperation&) = delete;
  TransferOperation& operator=(const TransferOperation&) = delete;
  void start(Stream& stream, std::uint64_t item) override;
  bool run(Lock& lock) override;
  std::shared_ptr<Operation> copy_for_replay() override;
  // The stream it is in, and its item number there.
  std::pair<std::shared_ptr<Stream>, std::uint64_t> position() const {
    return {stream_.lock(), item_};
  }

 private:
  Channel& channel_of(const Transfer& transfer);
  // True if the transfer is done now, or was.
  bool try_transfer(const std::shared_ptr<Transfer>& transfer, Lock& lock);
  void leave_channels();

  ncclComm& comm_;
  std::vector<std::shared_ptr<Transfer>> transfers_;
  std::shared_ptr<void> captured_;  // kept as long as a graph holds this operation
  std::weak_ptr<Stream> stream_;
  std::uint64_t item_ = 0;
  bool active_ = false;  // everything before it in its stream is complete
};

}  // namespace atl::cuda_emulation

struct ncclComm {
  std::shared_ptr<atl::cuda_emulation::World> world;
  int rank = 0;
  int device = 0;
  bool blocking = true;
  bool aborted = false;
  bool finalized = false;
  ncclResult_t error = ncclSuccess;
  std::string last_error;
  // Groups of a non-blocking communicator that are not in their streams yet.
  std::vector<std::pair<cudaStream_t, std::vector<atl::cuda_emulation::Transfer>>> deferred;
  bool answered_in_progress = false;  // since the last group was deferred
  std::set<atl::cuda_emulation::TransferOperation*> unfinished;  // in streams
  int captured = 0;                                              // operations that graphs hold
  int splits = 0;                                                // asked for
  bool splitting = false;                                        // the last one lacks ranks
};
