// Largest values over all ranks, for a transport that only adds up.
#pragma once

#include <span>

#include "engine/comm/transport.hpp"

namespace atl {

// Replaces each value by the largest of its place on any rank; collective. Sends size() values per
// value: for few values.
void max_over_ranks(Transport& transport, std::span<double> values, const OperationLabel& label);

}  // namespace atl
