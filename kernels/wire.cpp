#include "kernels/wire.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace atl {

std::int64_t wire_row_bytes(int bits, std::int64_t cols, DType storage) {
  ATOLL_ASSERT(std::ranges::find(kWireBits, bits) != kWireBits.end() && cols >= 0,
               "{} columns at {} bits", cols, bits);
  if (bits == 32) return cols * bytes_of(storage);
  return kWireMetadataBytes + wire_code_bytes(bits, cols);
}

}  // namespace atl
