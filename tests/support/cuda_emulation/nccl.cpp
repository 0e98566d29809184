// NCCL between host threads of one process: communicators and groups.
#include <nccl.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "tests/support/cuda_emulation/environment.hpp"
#include "tests/support/cuda_emulation/memory.hpp"
#include "tests/support/cuda_emulation/nccl_transfers.hpp"

using namespace atl::cuda_emulation;

namespace {

// Communicators that have not been destroyed or aborted. The objects themselves are never freed.
std::set<const ncclComm*>& live() {
  static auto* const all = new std::set<const ncclComm*>;
  return *all;
}

std::map<std::string, std::shared_ptr<World>>& worlds() {
  static auto* const all = new std::map<std::string, std::shared_ptr<World>>;
  return *all;
}

// Calls that this thread collects between ncclGroupStart and ncclGroupEnd.
struct Group {
  int depth = 0;
  ncclResult_t error = ncclSuccess;
  struct Part {
    ncclComm* comm;
    cudaStream_t stream;
    std::vector<Transfer> transfers;
  };
  std::vector<Part> parts;
  std::vector<ncclComm*> joining;
};
thread_local Group group;
thread_local std::string error_of_thread;

ncclResult_t fail(ncclResult_t result, ncclComm* comm, const std::string& text) {
  error_of_thread = text;
  if (comm != nullptr) comm->last_error = text;
  if (group.depth > 0 && group.error == ncclSuccess) group.error = result;
  return result;
}

std::string key_of(const ncclUniqueId& id) { return {id.internal, sizeof(id.internal)}; }

// Like the library, refuses two ranks on one device once all ranks are known.
void examine_devices(World& world) {
  for (const ncclComm* one : world.members) {
    for (const ncclComm* other : world.members) {
      if (one->rank >= other->rank || one->device != other->device) continue;
      world.error = ncclInvalidUsage;
      const std::string text = "Duplicate GPU detected : rank " + std::to_string(one->rank) +
                               " and rank " + std::to_string(other->rank) +
                               " both on CUDA device " + std::to_string(one->device);
      for (ncclComm* member : world.members) member->last_error = text;
    }
  }
}

ncclResult_t join(ncclComm_t* result, int size, const ncclUniqueId& id, int rank, bool blocking) {
  *result = nullptr;
  if (runtime().devices.empty()) return fail(ncclUnhandledCudaError, nullptr, "no CUDA device");
  const auto found = worlds().find(key_of(id));
  if (found == worlds().end()) return fail(ncclInvalidArgument, nullptr, "unknown unique id");
  World& world = *found->second;
  if (size < 1 || rank < 0 || rank >= size || (world.size != 0 && world.size != size)) {
    return fail(ncclInvalidArgument, nullptr, "rank or number of ranks");
  }
  world.size = size;
  world.members.resize(static_cast<std::size_t>(size));
  ncclComm*& member = world.members[static_cast<std::size_t>(rank)];
  if (member != nullptr) return fail(ncclInvalidUsage, nullptr, "the rank has joined before");
  member = new ncclComm;
  member->world = found->second;
  member->rank = rank;
  member->device = current_device().index;
  member->blocking = blocking;
  live().insert(member);
  *result = member;
  if (world.complete()) examine_devices(world);
  runtime().changed.notify_all();
  return ncclSuccess;
}

ncclResult_t wait_until_joined(ncclComm& comm, Lock& lock) {
  World& world = *comm.world;
  runtime().changed.wait(lock, [&] { return world.complete() || comm.aborted; });
  if (comm.aborted) return ncclInternalError;
  if (world.error != ncclSuccess) error_of_thread = comm.last_error;
  return world.error;
}

ncclResult_t initialize(ncclComm_t* comm, int size, const ncclUniqueId& id, int rank,
                        bool blocking) {
  Lock lock(runtime().mutex);
  const ncclResult_t result = join(comm, size, id, rank, blocking);
  if (result != ncclSuccess) return result;
  if (!blocking) return ncclInProgress;
  if (group.depth > 0) {
    group.joining.push_back(*comm);
    return ncclSuccess;
  }
  return wait_until_joined(**comm, lock);
}

ncclResult_t put_into_stream(ncclComm& comm, cudaStream_t handle, std::vector<Transfer> transfers,
                             Lock& lock) {
  Stream* const stream = find_stream(handle);
  if (stream == nullptr) return fail(ncclInvalidUsage, &comm, "the stream is gone");
  if (stream->device->index != comm.device) {
    return fail(ncclInvalidUsage, &comm, "a stream of another device");
  }
  if (stream->device->sticky != cudaSuccess) {
    return fail(ncclUnhandledCudaError, &comm, cudaGetErrorName(stream->device->sticky));
  }
  std::shared_ptr<void> captured;
  if (stream->capture) {
    ++comm.captured;
    captured = std::shared_ptr<void>(&comm, [](void* held) {
      --static_cast<ncclComm*>(held)->captured;
      runtime().changed.notify_all();
    });
  }
  const cudaError_t error = enqueue(
      *stream, std::make_shared<TransferOperation>(comm, std::move(transfers), std::move(captured)),
      lock);
  return error == cudaSuccess ? ncclSuccess
                              : fail(ncclUnhandledCudaError, &comm, cudaGetErrorName(error));
}

void put_deferred_into_streams(ncclComm& comm, Lock& lock) {
  auto deferred = std::exchange(comm.deferred, {});
  for (auto& [stream, transfers] : deferred) {
    const ncclResult_t result = put_into_stream(comm, stream, std::move(transfers), lock);
    if (result != ncclSuccess) comm.error = result;
  }
}

ncclResult_t end_group(Lock& lock) {
  Group ended = std::exchange(group, Group{});
  if (ended.error != ncclSuccess) return ended.error;
  ncclResult_t result = ncclSuccess;
  const auto note = [&result](ncclResult_t next) {
    if (result == ncclSuccess || result == ncclInProgress) {
      result = next == ncclSuccess ? result : next;
    }
  };
  for (ncclComm* comm : ended.joining) note(wait_until_joined(*comm, lock));
  for (Group::Part& part : ended.parts) {
    if (part.comm->blocking) {
      note(put_into_stream(*part.comm, part.stream, std::move(part.transfers), lock));
    } else {
      part.comm->deferred.emplace_back(part.stream, std::move(part.transfers));
      part.comm->answered_in_progress = false;
      note(ncclInProgress);
    }
  }
  return result;
}

// Writes the communicators that all ranks of a world have asked for.
void complete_split(std::vector<SplitRequest> requests) {
  std::sort(requests.begin(), requests.end(), [](const SplitRequest& a, const SplitRequest& b) {
    return std::tuple(a.key, a.parent->rank) < std::tuple(b.key, b.parent->rank);
  });
  std::map<int, std::shared_ptr<World>> made;  // by color
  for (const SplitRequest& request : requests) {
    request.parent->splitting = false;
    if (request.color == NCCL_SPLIT_NOCOLOR) continue;
    std::shared_ptr<World>& world = made[request.color];
    if (!world) world = std::make_shared<World>();
    auto* const member = new ncclComm;
    member->world = world;
    member->rank = world->size++;
    member->device = request.parent->device;
    member->blocking = request.blocking;
    world->members.push_back(member);
    live().insert(member);
    if (!request.parent->aborted) *request.made = member;  // else whoever asked may be gone
  }
}

std::size_t element_bytes(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    case ncclNumTypes:
      break;
  }
  return 0;
}

ncclResult_t add_transfer(bool is_send, void* buffer, size_t count, ncclDataType_t type, int peer,
                          ncclComm_t comm, cudaStream_t stream) {
  Lock lock(runtime().mutex);
  if (!live().contains(comm)) return fail(ncclInvalidArgument, nullptr, "no communicator");
  if (!comm->world->complete() || comm->world->error != ncclSuccess) {
    return fail(ncclInvalidArgument, comm, "the communicator is not ready");
  }
  if (comm->finalized) return fail(ncclInvalidUsage, comm, "the communicator was finalized");
  if (peer < 0 || peer >= comm->world->size || element_bytes(type) == 0) {
    return fail(ncclInvalidArgument, comm, "peer or data type");
  }
  if (count > 0 && memory().find(buffer) == nullptr && !memory().is_pinned(buffer)) {
    return fail(ncclInvalidArgument, comm, "the buffer is neither device nor pinned memory");
  }
  const auto place = std::find_if(group.parts.begin(), group.parts.end(), [&](const auto& part) {
    return part.comm == comm && part.stream == stream;
  });
  Group::Part& part =
      place != group.parts.end() ? *place : group.parts.emplace_back(Group::Part{comm, stream, {}});
  Transfer transfer{};
  transfer.is_send = is_send;
  transfer.buffer = static_cast<char*>(buffer);
  transfer.bytes = count * element_bytes(type);
  transfer.peer = peer;
  part.transfers.push_back(transfer);
  return group.depth > 0 ? ncclSuccess : end_group(lock);
}

// A non-blocking communicator's answer for the work of the last call.
ncclResult_t progress(ncclComm& comm, Lock& lock) {
  if (comm.aborted) return ncclInternalError;
  if (comm.error != ncclSuccess) return comm.error;
  if (!comm.world->complete()) return ncclInProgress;
  if (comm.world->error != ncclSuccess) return comm.world->error;
  if (comm.splitting) return ncclInProgress;
  if (!comm.deferred.empty()) {
    if (!std::exchange(comm.answered_in_progress, true)) return ncclInProgress;
    put_deferred_into_streams(comm, lock);
    return comm.error;
  }
  if (!comm.finalized) return ncclSuccess;
  // The end is common to all ranks.
  const auto& members = comm.world->members;
  const bool all_ended = std::all_of(members.begin(), members.end(), [](const ncclComm* member) {
    return member->finalized || member->aborted;
  });
  return comm.unfinished.empty() && all_ended ? ncclSuccess : ncclInProgress;
}

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
  *version = static_cast<int>(environment_number("ATOLL_EMULATION_NCCL", NCCL_VERSION_CODE));
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  Lock lock(runtime().mutex);
  static std::uint64_t count = 0;
  std::memset(id, 0, sizeof(*id));
  const std::string text = "emulated world " + std::to_string(++count);
  std::memcpy(id->internal, text.data(), text.size());
  worlds()[key_of(*id)] = std::make_shared<World>();
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  const bool blocking = config == nullptr || config->blocking != 0;
  return initialize(comm, size, id, rank, blocking);
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank) {
  return initialize(comm, size, id, rank, true);
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
                           ncclConfig_t* config) {
  Lock lock(runtime().mutex);
  *newcomm = nullptr;
  if (!live().contains(comm)) return fail(ncclInvalidArgument, nullptr, "no communicator");
  if (group.depth > 0) return fail(ncclInvalidUsage, comm, "a split in a group of calls");
  if (!comm->world->complete() || comm->world->error != ncclSuccess || comm->splitting) {
    return fail(ncclInvalidArgument, comm, "the communicator is not ready");
  }
  if (!comm->unfinished.empty() || !comm->deferred.empty()) {
    return fail(ncclInvalidUsage, comm, "a split while operations are outstanding");
  }
  if (color < 0 && color != NCCL_SPLIT_NOCOLOR) return fail(ncclInvalidArgument, comm, "color");
  const bool blocking = config == nullptr ? comm->blocking : config->blocking != 0;
  const int number = comm->splits++;
  comm->splitting = true;
  auto& requests = comm->world->splits[number];
  requests.push_back({comm, color, key, blocking, newcomm});
  if (std::ssize(requests) == comm->world->size) {
    complete_split(std::move(requests));
    comm->world->splits.erase(number);
    runtime().changed.notify_all();
  }
  if (!comm->blocking) return ncclInProgress;
  runtime().changed.wait(lock, [&] { return !comm->splitting || comm->aborted; });
  return comm->aborted ? ncclInternalError : ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  Lock lock(runtime().mutex);
  if (!live().contains(comm)) return fail(ncclInvalidArgument, nullptr, "no communicator");
  if (comm->finalized) return fail(ncclInvalidUsage, comm, "the communicator was finalized");
  put_deferred_into_streams(*comm, lock);
  comm->finalized = true;
  runtime().changed.notify_all();
  return comm->blocking ? ncclSuccess : ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  Lock lock(runtime().mutex);
  if (!live().contains(comm)) return fail(ncclInvalidArgument, nullptr, "no communicator");
  put_deferred_into_streams(*comm, lock);
  comm->finalized = true;
  // Returns when the transfers are done and no graph can start them again.
  while (!comm->unfinished.empty() && !comm->aborted) {
    const std::pair<std::shared_ptr<Stream>, std::uint64_t> last =
        (*comm->unfinished.begin())->position();
    finish(*last.first, last.second, lock);
  }
  runtime().changed.wait(lock, [comm] { return comm->captured == 0; });
  live().erase(comm);
  runtime().changed.notify_all();
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  Lock lock(runtime().mutex);
  if (!live().contains(comm)) return fail(ncclInvalidArgument, nullptr, "no communicator");
  comm->aborted = true;
  comm->deferred.clear();
  runtime().changed.notify_all();
  // Like the library, waits for graphs that hold transfers.
  runtime().changed.wait(lock, [comm] { return comm->captured == 0; });
  live().erase(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  Lock lock(runtime().mutex);
  if (!live().contains(comm) && (comm == nullptr || !comm->aborted)) {
    return fail(ncclInvalidArgument, nullptr, "no communicator");
  }
  *error = progress(*comm, lock);
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  Lock lock(runtime().mutex);
  if (!live().contains(comm)) return fail(ncclInvalidArgument, nullptr, "no communicator");
  *count = comm->world->size;
  return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  Lock lock(runtime().mutex);
  if (!live().contains(comm)) return fail(ncclInvalidArgument, nullptr, "no communicator");
  *device = comm->device;
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  Lock lock(runtime().mutex);
  if (!live().contains(comm)) return fail(ncclInvalidArgument, nullptr, "no communicator");
  *rank = comm->rank;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  Lock lock(runtime().mutex);
  if (group.depth == 0) return fail(ncclInvalidUsage, nullptr, "ncclGroupEnd without a start");
  return --group.depth > 0 ? ncclSuccess : end_group(lock);
}

ncclResult_t ncclSend(const void* buffer, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return add_transfer(true, const_cast<void*>(buffer), count, type, peer, comm, stream);
}

ncclResult_t ncclRecv(void* buffer, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add_transfer(false, buffer, count, type, peer, comm, stream);
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    case ncclNumResults:
      break;
  }
  return "unknown result code";
}

const char* ncclGetLastError(ncclComm_t comm) {
  return comm != nullptr ? comm->last_error.c_str() : error_of_thread.c_str();
}
