#include "engine/models/convolutions.hpp"

namespace atl {

Value gcn_convolution(Builder& builder, Value x, std::int64_t columns) {
  const Value weight = builder.weight("weight", x, columns);
  return builder.propagate(Normalisation::kSymmetric, x, weight);
}

Value sage_convolution(Builder& builder, Value x, std::int64_t columns) {
  const Value weight = builder.weight("weight", x, columns);
  const Value root_weight = builder.weight("root_weight", x, columns);
  const Value neighbours = builder.propagate(Normalisation::kMean, x, weight);
  const Value own = builder.linear(x, root_weight);
  return builder.add(neighbours, own);
}

}  // namespace atl
