// The network of the policy: attention over the edges of a PolicyGraph, and a score per option. Its
// weights depend neither on the number of devices nor on that of options or layers.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/placement/policy/policy_graph.hpp"
#include "engine/program/optimizer.hpp"

namespace atl {

struct PolicyShape {
  std::int64_t hidden = 32;  // a multiple of kHeads
  int layers = 4;
};

// h = relu(x W + b); then in each layer (GATv2: Brody et al., arXiv 2105.14491, eq. 7, with edge
// features and a residual), for an edge e from j to i with features f:
//   z_e = h_j W_source + f W_edge
//   score of head k = sum of a * leaky_relu(z_e + h_i W_target) over the head's columns
//   h_i = layer_norm(h_i + relu(sum_e softmax_e(score) z_e + h_i W_self + b))
// and for each candidate  relu(h W + b) w. Products, norms and the optimizer are those of the
// engine; the softmax over edges is written here.
class PolicyNetwork {
 public:
  static constexpr std::int64_t kHeads = 4;

  // dtype: kF32 (backend `cpu`, one thread), or kF64 (`reference`) to check gradients.
  explicit PolicyNetwork(const PolicyShape& shape, std::uint64_t seed, DType dtype = DType::kF32);
  ~PolicyNetwork();
  PolicyNetwork(PolicyNetwork&&) noexcept;

  // By option; they sum to 1.
  std::vector<double> probabilities(const PolicyGraph& graph);
  struct Outcome {
    double loss = 0;
    std::vector<double> probabilities;
  };
  // Cross-entropy to `target` (by option, sum 1), times `weight`; its gradient is added to
  // parameters().
  Outcome add_gradient(const PolicyGraph& graph, std::span<const double> target, double weight);
  // Step number `step` from 1, after which gradients are 0.
  void step(const OptimizerConfig& config, int step);

  const PolicyShape& shape() const;
  ParameterStore& parameters();

 private:
  class Pass;
  struct Weights;
  std::unique_ptr<Weights> weights_;
};

}  // namespace atl
