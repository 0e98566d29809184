// The work of an operation, as profiles show it and plans count it.
#pragma once

namespace atl {

// Bytes if each were moved once only, and if nothing were cached, every matrix, index and factor
// counted once per use: the same for operations that stream.
struct SpanWork {
  double flops = 0;
  double bytes = 0;
  double no_reuse_bytes = 0;
};

}  // namespace atl
