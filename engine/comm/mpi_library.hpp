// The calls of MPI that transports make, in types that are the same for every MPI library: they,
// and not mpi.h, are what the rest of the program is compiled against. docs/transport.md has the
// reasons.
#pragma once

#include <string>

namespace atl {

struct MpiCommHandle;
struct MpiRequestHandle;
using MpiComm = MpiCommHandle*;        // null: none
using MpiRequest = MpiRequestHandle*;  // MpiCalls::no_request: not posted, or complete

struct MpiCompletion {
  int index = 0;  // of the request
  int error = 0;
  int bytes = 0;  // that a receive has got
};

// Functions that return int return MPI's error code, which is 0 for success in every library. They
// are called one at a time. All messages are bytes.
struct MpiCalls {
  bool is_open_mpi;
  // As the library itself has it, so that arrays of requests can be handed over as they are.
  MpiRequest no_request;
  // Levels of threads, as init() provides them: a higher number allows more.
  int thread_serialized, thread_multiple;

  bool (*initialized)();
  bool (*finalized)();
  // Asks for thread_multiple. From here on, errors are returned by the calls that meet them.
  int (*init)(int* provided);
  int (*finalize)();
  int (*abort_world)(int exit_code);

  int (*duplicate_world)(MpiComm* made);
  // A negative color: none is made for this rank.
  int (*split)(MpiComm comm, int color, int key, MpiComm* made);
  int (*free)(MpiComm comm);
  int (*rank)(MpiComm comm, int* rank);
  int (*size)(MpiComm comm, int* size);

  int (*isend)(const void* from, int bytes, int peer, int tag, MpiComm comm, MpiRequest* request);
  int (*irecv)(void* to, int bytes, int peer, int tag, MpiComm comm, MpiRequest* request);
  // Which of the requests have completed since the last call; these become no_request. There is
  // room for `count` completions, and `completed` becomes their number.
  int (*test_some)(int count, MpiRequest* requests, int* completed, MpiCompletion* completions);
  int (*test)(MpiRequest* request, bool* complete);
  int (*wait)(MpiRequest* request);
  int (*cancel)(MpiRequest request);

  std::string (*error_text)(int code);
  std::string (*version)();  // also before init()
};

// Those of the library that this process uses. It is linked, or in builds with ATOLL_MPI=runtime
// loaded when this is first called. Throws Error{kOption} that says what was looked for if there is
// none.
const MpiCalls& mpi_calls();

// The same once mpi_calls() has returned; null before, and where it failed.
const MpiCalls* mpi_calls_in_use() noexcept;

struct MpiFacts {
  std::string version = {};  // such as "Open MPI v4.1.4"; empty: there is no library
  std::string file = {};     // that was loaded; empty: it is linked
  std::string absence = {};  // why there is none
  // version, and the file if there is one; or "none".
  std::string text() const;
};

// Looks for the library without initialising it. Never throws.
MpiFacts find_mpi();

}  // namespace atl
