// The factors of a focus in cross-entropy (SoftmaxTarget, SigmoidTarget).
#pragma once

#include <cmath>

#include "base/philox.hpp"

namespace atl {

// Factors that a focus g puts on the cross-entropy l = -log p of what is wanted and on its
// gradient, from p and 1 - p: (1 - p)^g, and (1 - p)^g (1 + g p l / (1 - p)).
struct FocusFactors {
  double loss = 1;
  double slope = 1;

  ATOLL_HOST_DEVICE FocusFactors(double focus, double probability, double missed,
                                 double minus_log) {
    if (focus == 0) return;
    loss = std::pow(missed, focus);
    slope = loss * (1 + focus * (missed > 0 ? probability * minus_log / missed : 1));
  }
};

}  // namespace atl
