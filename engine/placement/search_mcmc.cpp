// Metropolis walk on the logarithm of the time (exploratory placement, arXiv 2204.11224): a move
// that makes the epoch longer by the factor f is accepted with probability f^(-1/t). The
// temperature t falls over a cycle; each cycle begins at the best choice so far.
#include <algorithm>
#include <cmath>

#include "engine/placement/search_state.hpp"

namespace atl {

namespace {

// 10 % longer is accepted with probability 1/e at first, 0.1 % at the end of a cycle.
constexpr double kHottest = 0.1;
constexpr double kColdest = 0.001;
constexpr int kStepsPerAlternative = 4;  // of a cycle, per option that a decision doesn't have
constexpr int kLeastSteps = 40;
// Cycles without a new choice after which the walk has seen all it can reach.
constexpr int kIdleCycles = 20;

class Walk {
 public:
  Walk(SearchSpace& space, const SearchOptions& options) : state_(space, options) {
    for (int d = 0; d < space.decisions(); ++d) {
      steps_ += kStepsPerAlternative * (space.options(d) - 1);
    }
    steps_ = std::max(steps_, kLeastSteps);
  }

  SearchResult search() {
    for (int idle = 0; idle < kIdleCycles && !state_.complete(); ++idle) {
      const int before = state_.evaluations();
      if (!cycle()) break;
      if (state_.evaluations() > before) idle = -1;
    }
    return state_.result();
  }

 private:
  // False: the budget is spent.
  bool cycle() {
    std::vector<int> choice = state_.best();
    PlanCost cost = state_.best_cost();
    for (int step = 0; step < steps_ && !state_.complete(); ++step) {
      const double t = kHottest * std::pow(kColdest / kHottest, step / static_cast<double>(steps_));
      std::vector<int> next = choice;
      if (!state_.make_move(0, draw_, next)) continue;
      const std::optional<PlanCost> next_cost = state_.evaluate(next);
      if (!next_cost) return false;
      if (accepts(cost, *next_cost, t)) {
        choice = std::move(next);
        cost = *next_cost;
      }
    }
    return true;
  }

  // Never takes a choice that lacks more memory.
  bool accepts(const PlanCost& from, const PlanCost& to, double temperature) {
    if (!is_better(from, to)) return true;
    if (to.missing_bytes > from.missing_bytes) return false;
    return state_.draws().unit() < std::pow(from.seconds / to.seconds, 1 / temperature);
  }

  SearchState state_;
  SearchState::DrawOption draw_ = [this](const std::vector<int>& choice, int decision) {
    return state_.draw_other_option(choice, decision);
  };
  int steps_ = 0;  // of a cycle
};

}  // namespace

SearchResult search_by_walk(SearchSpace& space, const SearchOptions& options) {
  return Walk(space, options).search();
}

}  // namespace atl
