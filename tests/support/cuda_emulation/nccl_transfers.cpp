#include "tests/support/cuda_emulation/nccl_transfers.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/support/cuda_emulation/memory.hpp"

namespace atl::cuda_emulation {

bool World::complete() const {
  return std::find(members.begin(), members.end(), nullptr) == members.end();
}

TransferOperation::TransferOperation(ncclComm& comm, std::vector<Transfer> transfers,
                                     std::shared_ptr<void> captured)
    : comm_(comm), captured_(std::move(captured)) {
  for (Transfer& transfer : transfers) {
    transfer.done = false;
    transfers_.push_back(std::make_shared<Transfer>(transfer));
  }
}

TransferOperation::~TransferOperation() { leave_channels(); }

std::shared_ptr<Operation> TransferOperation::copy_for_replay() {
  std::vector<Transfer> transfers;
  for (const auto& transfer : transfers_) transfers.push_back(*transfer);
  return std::make_shared<TransferOperation>(comm_, std::move(transfers), captured_);
}

Channel& TransferOperation::channel_of(const Transfer& transfer) {
  const auto ends = transfer.is_send ? std::pair(comm_.rank, transfer.peer)
                                     : std::pair(transfer.peer, comm_.rank);
  return comm_.world->channels[ends];
}

void TransferOperation::start(Stream& stream, std::uint64_t item) {
  stream_ = stream.shared_from_this();
  item_ = item;
  comm_.unfinished.insert(this);
  for (const auto& transfer : transfers_) {
    transfer->operation = this;
    Channel& channel = channel_of(*transfer);
    (transfer->is_send ? channel.sends : channel.receives).push_back(transfer);
  }
}

void TransferOperation::leave_channels() {
  comm_.unfinished.erase(this);
  for (const auto& transfer : transfers_) {
    if (transfer->operation == nullptr) continue;
    Channel& channel = channel_of(*transfer);
    std::erase(transfer->is_send ? channel.sends : channel.receives, transfer);
    transfer->operation = nullptr;
  }
}

bool TransferOperation::try_transfer(const std::shared_ptr<Transfer>& transfer, Lock& lock) {
  // Twice at most: the second time after the peer's stream was brought to its counterpart.
  for (int attempt = 0; attempt < 2 && !transfer->done; ++attempt) {
    Channel& channel = channel_of(*transfer);
    auto& mine = transfer->is_send ? channel.sends : channel.receives;
    auto& theirs = transfer->is_send ? channel.receives : channel.sends;
    const auto place = std::find(mine.begin(), mine.end(), transfer) - mine.begin();
    if (place >= std::ssize(theirs)) return false;  // the peer has not called yet
    const auto other = theirs[static_cast<std::size_t>(place)];
    if (!other->operation->active_) {
      const auto stream = other->operation->stream_.lock();
      if (attempt > 0 || !stream) return false;
      advance(*stream, other->operation->item_, lock);
      continue;
    }
    if (other->bytes != transfer->bytes) {
      std::fprintf(stderr,
                   "CUDA emulation: rank %d and rank %d exchange a message of %zu and %zu "
                   "bytes\n",
                   comm_.rank, transfer->peer, transfer->bytes, other->bytes);
      std::abort();
    }
    memory().open();
    const bool send = transfer->is_send;
    std::memcpy(send ? other->buffer : transfer->buffer, send ? transfer->buffer : other->buffer,
                transfer->bytes);
    mine.erase(mine.begin() + place);
    theirs.erase(theirs.begin() + place);
    transfer->done = other->done = true;
    transfer->operation = other->operation = nullptr;
    runtime().changed.notify_all();
  }
  return transfer->done;
}

bool TransferOperation::run(Lock& lock) {
  if (!active_) {
    active_ = true;
    runtime().changed.notify_all();
  }
  const auto stream = stream_.lock();
  bool complete = true;
  for (const auto& transfer : transfers_) {
    if (comm_.aborted || stream->device->sticky != cudaSuccess) break;
    if (!try_transfer(transfer, lock)) complete = false;
  }
  // An abort ends transfers without their data, also one that came while the lock was released.
  if (comm_.aborted || stream->device->sticky != cudaSuccess) complete = true;
  if (complete) leave_channels();
  return complete;
}

}  // namespace atl::cuda_emulation
