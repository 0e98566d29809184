// The functions as parts of the program: those of the emulated device.
#include "engine/comm/nccl/nccl_library.hpp"

namespace atl {

const NcclLibrary& nccl() {
#define ATOLL_REFER(name) .name = &::name,
  static const NcclLibrary linked{ATOLL_NCCL_FUNCTIONS(ATOLL_REFER)};
#undef ATOLL_REFER
  return linked;
}

}  // namespace atl
