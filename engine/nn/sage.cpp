// GraphSAGE with the mean aggregator (Hamilton et al. 2017, algorithm 1): y = tail(mean_j(x_j) W +
// x R), the concatenation of the paper written as two weights.
#include "engine/nn/convolution_layer.hpp"

namespace atl {

std::unique_ptr<Layer> make_sage_layer(const LayerConfig& config, const GraphOperators& operators,
                                       ParameterStore& parameters, TensorArena& arena) {
  return std::make_unique<ConvolutionLayer>(config, /*root_weight=*/true, operators, parameters,
                                            arena);
}

}  // namespace atl
