// A file descriptor that closes itself.
#pragma once

#include <unistd.h>

#include "base/unique_handle.hpp"

namespace atl {

struct DescriptorTraits {
  using Value = int;
  static Value null() { return -1; }
  static void release(Value fd) noexcept { ::close(fd); }
};
using Descriptor = UniqueHandle<DescriptorTraits>;

}  // namespace atl
