// The functions of NCCL that messages between devices need, found when they are first used: the
// library is large, and absent on machines where the program shall run without it.
#pragma once

#include <nccl.h>

#define ATOLL_NCCL_FUNCTIONS(X) \
  X(ncclGetVersion)             \
  X(ncclGetUniqueId)            \
  X(ncclGetErrorString)         \
  X(ncclGetLastError)           \
  X(ncclCommInitRankConfig)     \
  X(ncclCommGetAsyncError)      \
  X(ncclCommFinalize)           \
  X(ncclCommDestroy)            \
  X(ncclCommAbort)              \
  X(ncclGroupStart)             \
  X(ncclGroupEnd)               \
  X(ncclSend)                   \
  X(ncclRecv)

// Functions that older libraries lack: null there.
#define ATOLL_NCCL_LATER_FUNCTIONS(X) X(ncclCommSplit)

namespace atl {

#define ATOLL_DECLARE_FUNCTION(name) decltype(&::name) name = nullptr;
struct NcclLibrary {
  ATOLL_NCCL_FUNCTIONS(ATOLL_DECLARE_FUNCTION)
  // Since 2.18.1; written out because headers from before that don't declare it.
  ncclResult_t (*ncclCommSplit)(ncclComm_t, int color, int key, ncclComm_t* made,
                                ncclConfig_t*) = nullptr;
};
#undef ATOLL_DECLARE_FUNCTION

// Loads it on the first call (load_cuda_library). Throws Error{kCommunication} that says what was
// found instead.
const NcclLibrary& nccl();

}  // namespace atl
