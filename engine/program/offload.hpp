// Takes values that wait for backward out of a device's memory: they are copied to host memory
// while the forward pass goes on, and fetched back before backward comes to them (Rhu et al. 2016,
// "vDNN", section 3).
#pragma once

#include "engine/program/program.hpp"

namespace atl {

// How many layers store what backward reads of them; an input layer counts as one. They are spread
// evenly, the first one always among them, so that each copy has as much computing as possible to
// hide behind. Of more layers than have something to store, all.
struct Offloading {
  int layers = 0;  // 0: none

  bool any() const { return layers > 0; }
  bool operator==(const Offloading&) const = default;
};
inline constexpr Offloading kOffloadAll{1 << 30};

// Layers that have values which the forward pass reads for the last time before it ends, and
// backward only later: what `layers` counts.
int layers_to_offload(const Program& program);

// Puts behind a storing layer the copies of its values to host memory, which are waited for where
// the next storing layer ends (the last one's, one layer later): there the values' places are free.
// Backward reads other values, which are fetched as many layers ahead of their first reader.
// The numbers stay. Comes after differentiate(), fuse(), compute_halo_rows() and drop_values():
// what is computed again is not stored. Computed rows stay where they are, and so does what is read
// forward until the end.
void offload_values(Program& program, const Offloading& offloading);

}  // namespace atl
