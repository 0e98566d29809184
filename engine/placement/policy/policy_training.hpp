// Self-play: searches on random instances with the policy so far, from whose outcomes it learns
// (Silver et al., "Mastering the game of Go without human knowledge", 2017; TAG, section 4.3).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/placement/policy/policy_network.hpp"
#include "engine/placement/policy/random_instance.hpp"

namespace atl {

struct PolicyTrainingOptions {
  int instances = 400;    // all rounds together
  int rounds = 4;         // new instances by the policy so far, then learning from all so far
  int epochs = 6;         // over what there is, per round
  int evaluations = 150;  // of each decision's search
  int batch = 16;         // decisions per step of Adam
  double learning_rate = 0.002;
  // After that no new instance and no new round; what there is is learned. 0: no limit.
  double seconds = 0;
  std::uint64_t seed = 1;
  bool trained_before = false;  // the network plays from the first round on
};

// A decision that was searched, and what came out.
struct PolicySample {
  PolicyGraph graph;
  std::vector<double> target;  // by option, sum 1
};

// Plays through the decisions of a space: each is searched by mcts, with all before it fixed, from
// the policy (null: uniform) with noise at the root; then its best option, or now and then another
// one, is taken. Decisions of one option are passed over.
std::vector<PolicySample> play(PlanSpace& space, PolicyNetwork* network,
                               const PolicyTrainingOptions& options, std::uint64_t seed);

// The target that a search gives for the options of its first decision, from the best plan that it
// found with each: options within a percent of the best one share. (Visits of a tree that is soon
// closed say less: all its options are visited.) `best`: by option; none: not tried.
std::vector<double> search_target(const std::vector<std::optional<PlanCost>>& best);

struct PolicyProgress {
  int round = 0;
  int epoch = 0;
  int samples = 0;
  double loss = 0;      // mean cross-entropy of the epoch, less the entropy of the targets
  double accuracy = 0;  // share of decisions whose likeliest option is the best one
};
using PolicyObserver = std::function<void(const PolicyProgress&)>;

// One pass over the samples in random order; `step` counts steps of Adam.
PolicyProgress train_epoch(PolicyNetwork& network, const std::vector<PolicySample>& samples,
                           const PolicyTrainingOptions& options, std::uint64_t seed, int& step);

// Deterministic but for `seconds`. Returns the number of samples.
int train_policy(PolicyNetwork& network, const PolicyTrainingOptions& options,
                 const PolicyObserver& observer = {});

}  // namespace atl
