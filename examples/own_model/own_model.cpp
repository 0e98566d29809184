// A program with all that `atoll` does and one model more: `own_model train DATA --model mine`.
#include <atoll/atoll.hpp>

// Two means of the neighbours, over one and over two steps, and the node itself, a weight for each:
// M x W + M M x T + x R.
atl::Value mine(atl::Builder& builder, const atl::ConvolutionInput& input) {
  const atl::Value weight = builder.weight("weight", input.x, input.columns);
  const atl::Value second_weight = builder.weight("second_weight", input.x, input.columns);
  const atl::Value root_weight = builder.weight("root_weight", input.x, input.columns);
  const atl::Value near = builder.aggregate(atl::Normalisation::kMean, input.x);
  const atl::Value far = builder.aggregate(atl::Normalisation::kMean, near);
  const atl::Value near_product = builder.linear(near, weight);
  const atl::Value far_product = builder.linear(far, second_weight);
  const atl::Value own_product = builder.linear(input.x, root_weight);
  const atl::Value neighbours = builder.add(near_product, far_product);
  return builder.add(neighbours, own_product);
}

int main(int argc, char** argv) {
  return atl::main(argc, argv, {.convolutions = {{"mine", mine}}});
}
