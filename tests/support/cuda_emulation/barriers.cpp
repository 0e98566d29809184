// The barriers of a block and the collectives of its warps.
#include <array>
#include <bit>
#include <cstring>

#include "tests/support/cuda_emulation/schedule.hpp"

namespace atl::cuda_emulation {
namespace {

// All lanes of the mask must exist, still run, and do the same where they wait already.
void check_arrival(int thread, const Thread& self, Warp& warp) {
  const unsigned mask = self.mask;
  if ((mask >> (thread % 32) & 1u) == 0) fail("the mask lacks its own lane: " + describe(self));
  if ((mask & ~warp.present) != 0) fail("the mask names absent lanes: " + describe(self));
  if (const unsigned gone = mask & (warp.exited | warp.at_block_barrier); gone != 0) {
    fail_divergence(self, lane_of_warp(thread, std::countr_zero(gone)));
  }
  if (warp.in_collective == 0) {
    warp.collective = self.collective;
    warp.mask = mask;
    warp.uniform = true;
  } else if (warp.collective != self.collective || warp.mask != mask) {
    warp.uniform = false;
  }
  for (unsigned lanes = warp.uniform ? 0 : mask & warp.in_collective; lanes != 0;
       lanes &= lanes - 1) {
    const Thread& other = lane_of_warp(thread, std::countr_zero(lanes));
    if (other.collective == self.collective && other.mask == mask) continue;
    fail("divergence: " + describe(self) + ", and " + describe(other) +
         (other.mask == mask ? "" : " with another mask"));
  }
}

// Gives everyone their result when the last lane has arrived. Apart from the 31 arrivals that only
// wait.
[[gnu::noinline]] void complete(int thread, Collective kind, unsigned mask) {
  Thread* const warp = &lane_of_warp(thread, 0);
  std::array<std::uint64_t, 32> values{};
  unsigned ballot = 0;
  for (unsigned lanes = mask; lanes != 0; lanes &= lanes - 1) {
    const int lane = std::countr_zero(lanes);
    values[static_cast<std::size_t>(lane)] = warp[lane].value;
    if (warp[lane].value != 0) ballot |= 1u << lane;
  }
  warp_of(thread).in_collective &= ~mask;
  for (unsigned lanes = mask; lanes != 0; lanes &= lanes - 1) {
    const int lane = std::countr_zero(lanes);
    Thread& other = warp[lane];
    const bool named = (mask >> (other.source & 31) & 1u) != 0;
    other.value = kind == Collective::kBallot ? ballot
                  : named                     ? values[static_cast<std::size_t>(other.source & 31)]
                                              : ~std::uint64_t{0};
    if (lane != thread % 32) make_runnable(thread / 32 * 32 + lane);
  }
}

// Arrival of the current thread at a collective of its warp; returns when all lanes of `mask` have
// arrived, with what this lane receives.
[[gnu::always_inline]] inline std::uint64_t collective(Collective kind, unsigned mask,
                                                       std::uint64_t value, int source,
                                                       const CodePlace& where) {
  Block& b = block();
  const int thread = b.current;
  Thread& self = b.threads[static_cast<std::size_t>(thread)];
  Warp& warp = warp_of(thread);
  self.collective = kind;
  self.where = where;
  self.mask = mask;
  self.value = value;
  self.source = source;
  self.state = State::kInWarp;
  check_arrival(thread, self, warp);
  warp.in_collective |= 1u << (thread % 32);
  if ((warp.in_collective & mask) != mask) {
    wait_until_runnable(self);
    return self.value;
  }
  complete(thread, kind, mask);
  self.state = State::kRunnable;
  return self.value;
}

}  // namespace

void block_barrier(const CodePlace& where) {
  Block& b = block();
  const int thread = b.current;
  Thread& self = b.threads[static_cast<std::size_t>(thread)];
  self.where = where;
  self.state = State::kAtBlockBarrier;
  if (b.exited > 0) {
    for (const Thread& other : b.threads) {
      if (other.state == State::kExited) {
        fail_divergence(self, other);
      }
    }
  }
  if (warp_of(thread).in_collective != 0) check_nobody_in_warp_needs(thread);
  if (++b.at_barrier < b.threads.size()) {
    warp_of(thread).at_block_barrier |= 1u << (thread % 32);
    wait_until_runnable(self);
    return;
  }
  b.at_barrier = 0;
  for (Warp& warp : b.warps) warp.at_block_barrier = 0;
  for (std::size_t i = 0; i < b.threads.size(); ++i) {
    const Thread& other = b.threads[i];
    if (other.where.line != where.line || std::strcmp(other.where.file, where.file) != 0) {
      fail_divergence(self, other);
    }
    if (static_cast<int>(i) != thread) make_runnable(static_cast<int>(i));
  }
  self.state = State::kRunnable;
}

void warp_barrier(unsigned mask, const CodePlace& where) {
  collective(Collective::kBarrier, mask, 0, 0, where);
}

std::uint64_t warp_exchange(unsigned mask, std::uint64_t value, int source,
                            const CodePlace& where) {
  return collective(Collective::kExchange, mask, value, source, where);
}

unsigned warp_ballot(unsigned mask, bool predicate, const CodePlace& where) {
  return static_cast<unsigned>(collective(Collective::kBallot, mask, predicate ? 1 : 0, 0, where));
}

int lane_index() { return block().current % 32; }

}  // namespace atl::cuda_emulation
