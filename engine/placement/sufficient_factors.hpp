// Whether the gradient of a weight had better be summed over ranks, or be computed by every rank
// from the rows it is made of: sufficient factor broadcasting, as TAG asks per weight (arXiv
// 2302.06126), for full-graph training. For each weight of a plan this proves that it does not pay;
// training can't do it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/placement/epoch_cost.hpp"

namespace atl {

// [inputs, outputs]; its gradient is the input factor, transposed, times the output factor.
struct WeightMatrix {
  std::string name;
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  int input_factor = -1;  // into FactorProblem::factors; -1: all ones, of a bias with inputs = 1
  int output_factor = -1;
  // The time of the product over the rows of all ranks, on the slowest rank, beyond that over its
  // own.
  double extra_compute_s = 0;
};

struct FactorProblem {
  // Columns of the rows that a rank would send to all others: the inputs of a product, or the
  // gradient of its outputs. Weights may share a factor, as the two of a GraphSAGE layer do; it
  // travels once.
  std::vector<std::int64_t> factors;
  std::vector<WeightMatrix> weights;
  std::vector<std::int64_t> rows;  // by rank: inner nodes
};

struct WeightChoice {
  bool send_factors = false;
  // Bytes of the rank that sends most; factors that other weights share are counted in full.
  std::int64_t all_reduce_bytes = 0;
  std::int64_t factor_bytes = 0;
  std::string sentence;  // why: "all-reduce sends 0.13 MB, factors would send 171 MB: ..."
};

struct FactorPlan {
  std::vector<WeightChoice> weights;
  double all_reduce_s = 0;  // with all-reduce for all weights
  double seconds = 0;       // of this plan
  std::string summary;      // "SFB pays for 0 of 3 weights because ..."
};

// One weight per gradient that is a product; biases and norms, which are sums, are not asked about.
FactorProblem factor_problem(const EpochSetting& setting, std::span<const LayerPlan> layers);

// The plan of least time, all-reduce where both take equally long. Times add up over weights and
// factors. All gradients that are summed travel in one all-reduce of two steps, from every rank to
// every other, as Transport::all_reduce does; a factor takes one step. A step takes the greatest
// latency once, and as long as the link or the host's card that is busy longest.
//
// Among M ranks of N rows each behind equal links this says yes for an [F, F'] weight with its own
// factors where N < 2FF' / (M(F + F')), less what latency changes.
FactorPlan plan_sufficient_factors(const FactorProblem& problem, const Topology& topology);

}  // namespace atl
