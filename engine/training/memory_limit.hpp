// The treatment of values that wait for backward, so that training stays within --memory.
#pragma once

#include "engine/training/trainer.hpp"

namespace atl {

struct Savings {
  Dropping dropping = {};
  Offloading offloading = {};
  // Bytes of values in memory while the others lie in a file; 0: all.
  std::int64_t paged_budget = 0;

  bool any() const { return dropping.any() || offloading.any() || paged_budget > 0; }
};

// The least of them with which no rank takes more than `limit` bytes of its memory (of a device,
// where it computes on one) for data and training; none if that fits as it is. Where all ranks have
// a device and the options allow it, values may also wait in host memory, as far as the hosts have
// some: that or computing them again, whichever is estimated to take less time, and both where
// neither is enough. On CPUs the same is true of a file, where the options name a folder.
// `trainer`: one of this model that saves nothing and holds no memory yet; `data`: the bytes of its
// data that this process doesn't hold yet, of a device all of them. Where messages are not
// exact, no message travels twice. Collective; throws Error{kMemory} on all ranks naming the
// smallest limit that would do.
Savings savings_within(std::int64_t limit, std::int64_t data, const Trainer& trainer,
                       Transport& transport);

}  // namespace atl
