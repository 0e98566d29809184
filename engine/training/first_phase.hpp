// The first phase of a run: epochs on blocks of the graph (docs/blocks.md), without messages (a
// local phase, docs/exchange.md), or both. Then the run switches to the whole graph and to the
// messages of
// --exchange.
#pragma once

#include <string>

namespace atl {

// The last epoch of a first phase.
struct PhaseEnd {
  int epoch = 0;             // 0: there is none, or it is not known beforehand
  bool by_accuracy = false;  // the one whose evaluation shows that the valid metric has stalled

  // Whether other epochs follow.
  bool any() const { return epoch > 0 || by_accuracy; }
  bool operator==(const PhaseEnd&) const = default;
};
std::string to_string(const PhaseEnd& end);  // "20", "accuracy"
// The reverse; throw Error{kOption} for other texts.
PhaseEnd parse_blocks_until(const std::string& text);
PhaseEnd parse_local_until(const std::string& text);

struct SwitchOptions {
  int patience = 3;  // by accuracy: evaluations without a better valid metric that end the phase
  double rate_after = 0;  // learning rate of the epochs that follow; 0: the same
};

}  // namespace atl
