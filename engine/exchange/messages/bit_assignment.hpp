// Chooses for every message of a channel how it travels, so that variance and time together are
// least.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "engine/exchange/messages/link_cost.hpp"
#include "kernels/wire.hpp"

namespace atl {

// The costs of a message that travels in one way.
struct TravelCost {
  double variance = 0;     // times the message's beta
  std::int64_t bytes = 0;  // on the wire, metadata and padding included
};
inline constexpr std::size_t kMostChoices = 24;

// The messages that this rank sends to one other rank.
struct LinkProblem {
  std::span<const float> beta;  // [messages] sensitivity times range: finite, not negative
  LinkTime cost;                // a link without messages takes no time
};

// One layer and direction, as this rank sees it.
struct ChannelProblem {
  // The ways to travel: at most kMostChoices. Of the last one, 32 bits, the variance is 0.
  std::vector<TravelCost> choices;
  std::vector<LinkProblem> links;
  // Units of variance and time: this rank's part of V, or V if all messages had the
  // first choice; and T if all had this choice, or the last one.
  std::optional<double> unit_variance = std::nullopt;
  std::optional<std::size_t> unit_time = std::nullopt;
  double central_s = 0;  // least time whatever is sent: only time beyond it counts
  // The time of packing and unpacking beyond plain copies, hidden by nothing; saved where all
  // messages of the channel, on all ranks, have the last choice.
  double quantize_s = 0;
};

// chosen is this rank's; the numbers are the same on all ranks.
struct ChannelAssignment {
  std::vector<std::vector<std::uint8_t>> chosen;  // [links][messages], places in `choices`
  double variance = 0;                            // of all messages of all ranks
  double time_s = 0;     // max(central, slowest link of all ranks) + quantize_s if quantized
  double objective = 0;  // of these choices
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
//   lambda * V / V1 + (1 - lambda) * T / T1
// over the choices of all messages of all ranks. V is the sum of the messages' variances, T the
// time_s above; V1 and T1 are the units of the problem. A term whose divisor is 0 counts 0. lambda
// in [0, 1]: 0 looks at time only, 1 at variance only; among equal objectives less variance wins,
// and the last choice for all before anything else.
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
