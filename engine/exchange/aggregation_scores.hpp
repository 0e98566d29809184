// How much the noise of a message matters to the rank that receives it.
#pragma once

#include <vector>

#include "engine/exchange/distributed_operator.hpp"

namespace atl {

// How the noise of a message is weighed by the coefficients alpha with which the receiver's inner
// rows add it up.
enum class Sensitivity : std::uint8_t {
  kVariance,    // sum alpha^2: the variance that the aggregated rows receive
  kUpperBound,  // (sum |alpha|)^2, an upper bound of it: AdaQP, section 4.1
};

const char* to_string(Sensitivity sensitivity);  // "variance", "upper-bound"

// The score A_k of every halo row k of `op`, in the order of halo rows. On the host, linear in the
// edges.
std::vector<float> aggregation_scores(const DistributedOperator& op, Sensitivity sensitivity);

}  // namespace atl
