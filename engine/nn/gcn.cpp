// GCN (Kipf & Welling 2017, eq. 2): y = tail(D^-1/2 (A + I) D^-1/2 x W).
#include "engine/nn/convolution_layer.hpp"

namespace atl {

std::unique_ptr<Layer> make_gcn_layer(const LayerConfig& config, const GraphOperators& operators,
                                      ParameterStore& parameters, TensorArena& arena) {
  return std::make_unique<ConvolutionLayer>(config, /*root_weight=*/false, operators, parameters,
                                            arena);
}

}  // namespace atl
