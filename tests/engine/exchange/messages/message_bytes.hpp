// The size of messages by their widths alone, without the layout of packets.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/wire.hpp"

namespace atl {

// Bytes of all messages, without the gaps between packets.
inline std::int64_t message_bytes(std::span<const std::uint8_t> bits, std::int64_t cols,
                                  DType storage) {
  std::int64_t total = 0;
  for (const std::uint8_t width : bits) {
    if (width != 0) total += wire_row_bytes(width, cols, storage);
  }
  return total;
}

}  // namespace atl
