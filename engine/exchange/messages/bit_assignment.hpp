// Chooses the bit width of every message of a channel so that variance and time together are least.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/exchange/messages/link_cost.hpp"
#include "kernels/wire.hpp"

namespace atl {

// Costs of one message, by place in kWireBits.
struct BitCosts {
  // Times the message's beta this is the variance that the width costs; 0 at 32 bits.
  std::array<double, kWireBits.size()> variance{};
  std::array<std::int64_t, kWireBits.size()> bytes{};  // on the wire, metadata and padding included
};

// The messages that this rank sends to one other rank.
struct LinkProblem {
  std::span<const float> beta;  // [messages] sensitivity times range: finite, not negative
  LinkTime cost;                // a link without messages takes no time
};

// One layer and direction, as this rank sees it.
struct ChannelProblem {
  BitCosts costs;
  std::vector<LinkProblem> links;
  double central_s = 0;  // least time whatever is sent: only time beyond it counts
  // The time of packing and unpacking beyond plain copies, hidden by nothing; saved where all
  // messages of the channel, on all ranks, travel at 32 bits.
  double quantize_s = 0;
};

// bits is this rank's; the numbers are the same on all ranks.
struct ChannelAssignment {
  std::vector<std::vector<std::uint8_t>> bits;  // [links][messages], out of kWireBits
  double variance = 0;                          // of all messages of all ranks
  double time_s = 0;     // max(central, slowest link of all ranks) + quantize_s if quantized
  double objective = 0;  // of these bits
  double bound = 0;      // no assignment has a smaller objective: the certificate
  // The share of the objective that might be saved at most.
  double gap() const { return objective > 0 ? (objective - bound) / objective : 0.0; }
};

// In-place reductions over all ranks, which must give every rank the same bits. Empty: one rank.
struct RankReductions {
  std::function<void(std::span<double>)> sum;
  std::function<void(std::span<double>)> max;
};

// Minimises, for each channel by itself,
//   lambda * V / V1 + (1 - lambda) * T / T32
// over the widths of all messages of all ranks. V is the sum of the messages' variances, T the
// time_s above; V1 is V if all messages had 1 bit, T32 is T if all had 32. A term whose divisor is
// 0 counts 0. lambda in [0, 1]: 0 looks at time only, 1 at variance only; among equal objectives
// less variance wins, and 32 bits for all before anything else.
//
// The problem is that of AdaQP (arXiv 2306.01381), but packets travel at once and not in a ring. It
// needs no integer program: for a given T the links separate, and it is optimal up to one message
// to spend a link's bytes in the order of variance saved per byte. The optimum is convex in T and
// searched on grids, each finer than the last by 16: that finds T to 1e-6 of its range, and the
// tangents there give the bound. Then whole messages are tried at many T, most of them near it, and
// compared by their real bytes. What is lost is about one message's step per link.
//
// Collective over the ranks of `ranks`: every rank gives the same number of channels and the same
// lambda, and calls each reduction equally often. central_s and quantize_s count as the maximum
// over ranks. The same inputs give the same bits. For M messages on L links it takes O(M) memory
// and O(M + L log^2 M) time.
std::vector<ChannelAssignment> assign_bits(std::span<const ChannelProblem> channels, double lambda,
                                           const RankReductions& ranks = {});

}  // namespace atl
