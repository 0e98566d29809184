// The convolutions that layers are made of: what a row takes from its neighbours' rows.
#pragma once

#include "engine/program/builder.hpp"

namespace atl {

// Each returns a value of `columns` columns, without bias.

// Kipf & Welling 2017, eq. 2: D^-1/2 (A + I) D^-1/2 x W.
Value gcn_convolution(Builder& builder, Value x, std::int64_t columns);
// GraphSAGE with the mean aggregator (Hamilton et al. 2017, algorithm 1): mean_j(x_j) W + x R, the
// concatenation of the paper written as two weights.
Value sage_convolution(Builder& builder, Value x, std::int64_t columns);

}  // namespace atl
