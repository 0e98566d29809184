// The functions as parts of the program: those of the emulated device.
#include "kernels/cuda/libraries.hpp"

namespace atl::cuda {

const Libraries& libraries() {
#define ATOLL_REFER(name) .name = &::name,
  static const Libraries linked{ATOLL_CUBLAS_FUNCTIONS(ATOLL_REFER) ATOLL_CUBLAS_LT_FUNCTIONS(
      ATOLL_REFER) ATOLL_CUSPARSE_FUNCTIONS(ATOLL_REFER)};
#undef ATOLL_REFER
  return linked;
}

}  // namespace atl::cuda
