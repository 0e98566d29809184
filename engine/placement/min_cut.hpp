// Binary decisions whose costs are submodular, solved exactly by one minimum s-t cut.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace atl {

// Costs `weight` where x[low] = 0 and x[high] = 1: weight * max(0, x[high] - x[low]).
struct CutPair {
  int low = 0;
  int high = 0;
  double weight = 0;
};

inline constexpr double kForbidden = std::numeric_limits<double>::infinity();

// Weights are not negative; kForbidden forbids. There is an assignment that nothing forbids.
struct CutProblem {
  std::vector<double> if_zero;  // by variable: what x = 0 costs
  std::vector<double> if_one;   // by variable: what x = 1 costs
  std::vector<CutPair> pairs;
};

struct CutSolution {
  // An assignment of least cost; of several the one with the fewest ones, which is unique.
  std::vector<std::uint8_t> x;
  double cost = 0;  // of x, summed from the problem's weights
  // The certificate: no assignment costs less. Found without x, and equal to cost but for rounding.
  double max_flow = 0;
};

// Weights count in units of at most 2^-50 of the sum of the finite ones, in which flow and cut are
// compared exactly; weights that are multiples of the unit are not rounded. Maximum flow by Boykov
// and Kolmogorov ("An experimental comparison of min-cut/max-flow algorithms", PAMI 2004).
CutSolution minimise_cut(const CutProblem& problem);

}  // namespace atl
