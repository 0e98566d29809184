#include "engine/comm/mpi/mpi_calls.hpp"

#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <type_traits>
#include <vector>

namespace atl {

namespace {

// Handles are pointers in Open MPI and int in MPICH.
template <typename To, typename From>
To convert_handle(From handle) {
  if constexpr (std::is_pointer_v<To> && std::is_pointer_v<From>) {
    return reinterpret_cast<To>(handle);
  } else if constexpr (std::is_pointer_v<To>) {
    return reinterpret_cast<To>(static_cast<std::intptr_t>(handle));
  } else {
    return static_cast<To>(reinterpret_cast<std::intptr_t>(handle));
  }
}

MPI_Comm their_comm(MpiComm comm) { return convert_handle<MPI_Comm>(comm); }
MpiComm our_comm(MPI_Comm comm) {
  return comm == MPI_COMM_NULL ? nullptr : convert_handle<MpiComm>(comm);
}

MPI_Request their_request(MpiRequest request) { return convert_handle<MPI_Request>(request); }
MpiRequest our_request(MPI_Request request) { return convert_handle<MpiRequest>(request); }

bool initialized() {
  int flag = 0;
  MPI_Initialized(&flag);
  return flag != 0;
}

bool finalized() {
  int flag = 0;
  MPI_Finalized(&flag);
  return flag != 0;
}

// Over TCP, Open MPI lets the receiver of a large packet ask for it piece by piece ("put"). What it
// asks waits in the same connection behind all that flows the other way, and in an exchange of all
// ranks links are idle meanwhile. Without it the sender sends as fast as the link takes.
void choose_protocol() {
#ifdef OPEN_MPI
  ::setenv("OMPI_MCA_btl_tcp_flags", "send,inplace", 0);  // not in place of what a user has chosen
#endif
}

int init(int* provided) {
  choose_protocol();
  const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, provided);
  if (code != MPI_SUCCESS) return code;
  return MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
}

int finalize() { return MPI_Finalize(); }

int abort_world(int exit_code) { return MPI_Abort(MPI_COMM_WORLD, exit_code); }

int take_comm(int code, MPI_Comm comm, MpiComm* made) {
  if (code != MPI_SUCCESS) return code;
  *made = our_comm(comm);
  return *made == nullptr ? MPI_SUCCESS : MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
}

int duplicate_world(MpiComm* made) {
  MPI_Comm comm = MPI_COMM_NULL;
  const int code = MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  return take_comm(code, comm, made);
}

int split(MpiComm comm, int color, int key, MpiComm* made) {
  MPI_Comm part = MPI_COMM_NULL;
  const int code = MPI_Comm_split(their_comm(comm), color < 0 ? MPI_UNDEFINED : color, key, &part);
  return take_comm(code, part, made);
}

int free_comm(MpiComm comm) {
  MPI_Comm handle = their_comm(comm);
  return MPI_Comm_free(&handle);
}

int rank(MpiComm comm, int* rank) { return MPI_Comm_rank(their_comm(comm), rank); }

int size(MpiComm comm, int* size) { return MPI_Comm_size(their_comm(comm), size); }

int isend(const void* from, int bytes, int peer, int tag, MpiComm comm, MpiRequest* request) {
  MPI_Request posted = MPI_REQUEST_NULL;
  const int code = MPI_Isend(from, bytes, MPI_BYTE, peer, tag, their_comm(comm), &posted);
  *request = our_request(posted);
  return code;
}

int irecv(void* to, int bytes, int peer, int tag, MpiComm comm, MpiRequest* request) {
  MPI_Request posted = MPI_REQUEST_NULL;
  const int code = MPI_Irecv(to, bytes, MPI_BYTE, peer, tag, their_comm(comm), &posted);
  *request = our_request(posted);
  return code;
}

// Memory that test_some() keeps from call to call.
struct Tested {
  std::vector<MPI_Request> requests;
  std::vector<int> indices;
  std::vector<MPI_Status> statuses;

  // The array itself if the library's handles are of the size of ours, else a copy.
  MPI_Request* take(std::size_t count, MpiRequest* ours) {
    if (indices.size() < count) {
      indices.resize(count);
      statuses.resize(count);
    }
    if constexpr (sizeof(MPI_Request) == sizeof(MpiRequest)) {
      return reinterpret_cast<MPI_Request*>(ours);
    } else {
      requests.resize(count);
      std::transform(ours, ours + count, requests.begin(), their_request);
      return requests.data();
    }
  }
};

int test_some(int count, MpiRequest* requests, int* completed, MpiCompletion* completions) {
  thread_local Tested tested;
  *completed = 0;
  MPI_Request* const theirs = tested.take(static_cast<std::size_t>(count), requests);
  int done = 0;
  const int code =
      MPI_Testsome(count, theirs, &done, tested.indices.data(), tested.statuses.data());
  // Only then MPI fills in the errors of the statuses.
  const bool errors_are_valid = code == MPI_ERR_IN_STATUS;
  if (code != MPI_SUCCESS && !errors_are_valid) return code;
  if (done == MPI_UNDEFINED) return MPI_SUCCESS;  // none is posted
  for (int i = 0; i < done; ++i) {
    MpiCompletion& completion = completions[i];
    completion.index = tested.indices[i];
    completion.error = errors_are_valid ? tested.statuses[i].MPI_ERROR : MPI_SUCCESS;
    MPI_Get_count(&tested.statuses[i], MPI_BYTE, &completion.bytes);
    requests[completion.index] = our_request(theirs[completion.index]);
  }
  *completed = done;
  return MPI_SUCCESS;
}

int test(MpiRequest* request, bool* complete) {
  MPI_Request handle = their_request(*request);
  int flag = 0;
  const int code = MPI_Test(&handle, &flag, MPI_STATUS_IGNORE);
  *request = our_request(handle);
  *complete = flag != 0;
  return code;
}

int wait(MpiRequest* request) {
  MPI_Request handle = their_request(*request);
  const int code = MPI_Wait(&handle, MPI_STATUS_IGNORE);
  *request = our_request(handle);
  return code;
}

int cancel(MpiRequest request) {
  MPI_Request handle = their_request(request);
  return MPI_Cancel(&handle);
}

// Libraries of one binary interface differ in how long these texts may be.
constexpr int kSpare = 8192;

std::string error_text(int code) {
  std::vector<char> text(MPI_MAX_ERROR_STRING + kSpare);
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) {
    return "code " + std::to_string(code);
  }
  return std::string(text.data(), static_cast<std::size_t>(length));
}

std::string version() {
  std::vector<char> text(MPI_MAX_LIBRARY_VERSION_STRING + kSpare);
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  return std::string(text.data(), static_cast<std::size_t>(length));
}

#ifdef OPEN_MPI
constexpr bool kIsOpenMpi = true;
#else
constexpr bool kIsOpenMpi = false;
#endif

const MpiCalls kCalls = {
    .is_open_mpi = kIsOpenMpi,
    .no_request = our_request(MPI_REQUEST_NULL),
    .thread_serialized = MPI_THREAD_SERIALIZED,
    .thread_multiple = MPI_THREAD_MULTIPLE,
    .initialized = initialized,
    .finalized = finalized,
    .init = init,
    .finalize = finalize,
    .abort_world = abort_world,
    .duplicate_world = duplicate_world,
    .split = split,
    .free = free_comm,
    .rank = rank,
    .size = size,
    .isend = isend,
    .irecv = irecv,
    .test_some = test_some,
    .test = test,
    .wait = wait,
    .cancel = cancel,
    .error_text = error_text,
    .version = version,
};

}  // namespace

}  // namespace atl

const atl::MpiCalls* atoll_mpi_calls() { return &atl::kCalls; }
