// Everything that the work of one rank runs on, and what changes from one pass over the program to
// the next.
#pragma once

#include "engine/exchange/part_group.hpp"
#include "engine/exchange/reduce.hpp"

namespace atl {

// Stays the same as long as the ranks do: whatever refers to it is made anew with other ranks. All
// of it must outlive those who refer to it.
struct Rank {
  Backend& backend;
  Queue& queue;  // of the computation
  Transport& transport;
  DeviceTransport* device;  // null: none
  TraceRecorder& trace;
  Reducer& reducer;
  std::span<const GlobalId> inner_ids = {};  // backend memory; keys the random numbers
  std::int64_t nodes = 0;                    // of the whole graph
  std::uint64_t seed = 0;
  const PartGroup* group = nullptr;  // null: this rank holds its part alone

  // The transport of messages between parts.
  Transport& between_parts() const { return group != nullptr ? group->slice() : transport; }
  // This rank as the exchange of rows between parts sees it. part_ids: inner_ids of all rows of the
  // part.
  Rank in_slice(std::span<const GlobalId> part_ids) const {
    if (group == nullptr) return *this;
    return among(group->slice(), group->slice_device(), part_ids);
  }
  // The same as those see it who hold the part, too. There are others.
  Rank in_part() const { return among(group->members(), group->members_device(), inner_ids); }
  // Since the start, by this rank, in whichever way.
  std::int64_t bytes_sent() const {
    return transport.bytes_sent() + (device != nullptr ? device->bytes_sent() : 0);
  }

 private:
  Rank among(Transport& ranks, DeviceTransport* of_them, std::span<const GlobalId> ids) const {
    return {.backend = backend,
            .queue = queue,
            .transport = ranks,
            .device = of_them,
            .trace = trace,
            .reducer = reducer,
            .inner_ids = ids,
            .nodes = nodes,
            .seed = seed};
  }
};

// One forward pass, or one epoch.
struct Round {
  int epoch = 0;
  bool training = true;  // false: no dropout, batch norm by running statistics
  bool overlap = true;   // false: wait for messages before any central work, same numbers
  const EpochState* state = nullptr;  // backend memory, or null: `epoch` alone counts
};

}  // namespace atl
