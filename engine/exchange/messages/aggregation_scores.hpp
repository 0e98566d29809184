// How much the noise of a message matters to the rank that receives it.
#pragma once

#include <vector>

#include "engine/exchange/halo_exchange.hpp"

namespace atl {

// The score A_k of every halo row k of `op`, in the order of halo rows. On the host, linear in the
// edges.
std::vector<float> aggregation_scores(const DistributedOperator& op, Sensitivity sensitivity);

// The scores of the messages that this rank sends, in the order of their lists, as their receivers
// have them. Collective.
std::vector<float> sent_scores(const DistributedOperator& op, Sensitivity sensitivity,
                               Transport& transport);

}  // namespace atl
