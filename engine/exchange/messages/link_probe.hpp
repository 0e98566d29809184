// Measures what sending costs between the ranks of a job, under the pattern of a halo exchange: all
// links at once, so that what ranks share (a network card) is in the figures.
#pragma once

#include <span>
#include <vector>

#include "engine/exchange/halo_exchange.hpp"
#include "engine/exchange/messages/link_cost.hpp"

namespace atl {

// The cost of every link, from-major: [from * P + to], the same on every rank. sends[r] and
// receives[r]: bytes of the largest packet to and from rank r; packets in this proportion are
// measured, of sizes that tell a rate from a start-up time and take a link of 50 Mbit/s two seconds
// in all. A link without packets costs nothing. Collective.
std::vector<LinkCost> measure_links(const Rank& rank, std::span<const std::int64_t> sends,
                                    std::span<const std::int64_t> receives);

}  // namespace atl
