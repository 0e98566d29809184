// Single numbers that ranks tell each other.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/comm/transport.hpp"

namespace atl {

// The sum of one value of every rank, in a type that all_reduce() has. Collective.
template <typename T>
T sum_over_ranks(Transport& transport, T value, const OperationLabel& label) {
  transport.all_reduce(std::span(&value, 1), label);
  return value;
}

// The value of every rank, by rank, on all of them. Collective.
template <typename T>
std::vector<T> values_of_ranks(Transport& transport, T value, const OperationLabel& label) {
  std::vector<T> values(static_cast<std::size_t>(transport.size()), T{});
  values[static_cast<std::size_t>(transport.rank())] = value;
  transport.all_reduce(std::span(values), label);
  return values;
}

}  // namespace atl
