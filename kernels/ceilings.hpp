// The best that a machine can do: the rates that measured times are compared with.
#pragma once

#include "kernels/backend.hpp"

namespace atl {

struct Ceilings {
  double bytes_per_s = 0;  // read and written
  double flop_per_s = 0;   // of matrix products
};

// Measures both with the threads that the backend uses: bytes by the STREAM triad on a host, by a
// copy on a device; products by square matrices of `dtype`. Matrices grow until a pass takes a few
// milliseconds; each figure is the best of a few passes. Takes a second and 400 MB at most, on a
// device 2 GB.
Ceilings measure_ceilings(Backend& backend, Queue& queue, int threads, DType dtype);

// Bytes per second that `threads` threads of the host read and write together in the STREAM triad
// a[i] = b[i] + s c[i] of doubles (McCalpin 1995), in arrays that no cache holds. Counts 24 bytes
// per element, as STREAM does.
double triad_bytes_per_s(int threads);

}  // namespace atl
