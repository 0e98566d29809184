// The common part of all search strategies: the budget, the memory of what was evaluated, the best
// so far.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "engine/placement/random_draws.hpp"
#include "engine/placement/search.hpp"

namespace atl {

// One search: begins with the evaluation of start(), which counts.
class SearchState {
 public:
  // kForget: for a strategy that never asks for a choice twice, start() aside.
  enum class Memory { kRemember, kForget };

  // Throws Error{kOption} for a budget below one evaluation or below 0 seconds.
  SearchState(SearchSpace& space, const SearchOptions& options, Memory memory = Memory::kRemember);

  // The cost of `choice`; a choice that is remembered takes no evaluation. Empty: time is up, or it
  // would take one evaluation too many; nothing was evaluated.
  std::optional<PlanCost> evaluate(std::span<const int> choice);

  // Every choice of the space was evaluated.
  bool complete() const { return static_cast<std::uint64_t>(evaluations_) == choices_; }
  int evaluations() const { return evaluations_; }
  const std::vector<int>& best() const { return best_; }
  const PlanCost& best_cost() const { return improvements_.back().cost; }
  const std::vector<int>& start() const { return start_; }
  const PlanCost& start_cost() const { return improvements_.front().cost; }
  SearchResult result() const;

  RandomDraws& draws() { return draws_; }
  // The option that `decision`, which has at least two, is to take; that of `choice` is no move.
  using DrawOption = std::function<int(const std::vector<int>& choice, int decision)>;
  int draw_other_option(const std::vector<int>& choice, int decision);
  // From a choice to one beside it: changes `choice` at decisions from `first` on. Three moves in
  // ten swap the options of two decisions: two parts change places, where moving one of them would
  // overload a rank. False, and nothing changed: what was drawn is no move; draw again.
  bool make_move(int first, const DrawOption& draw, std::vector<int>& choice);

 private:
  PlanCost evaluate_now(std::span<const int> choice);
  bool out_of_time() const;

  SearchSpace& space_;
  SearchOptions options_;
  Memory memory_;
  std::chrono::steady_clock::time_point began_;
  RandomDraws draws_;
  std::uint64_t choices_;  // in the space
  std::vector<int> start_;
  int evaluations_ = 0;
  std::map<std::vector<int>, PlanCost> remembered_;
  std::vector<int> best_;
  std::vector<SearchStep> improvements_;  // the start first
};

// "mcmc" and "mcts".
SearchResult search_by_walk(SearchSpace& space, const SearchOptions& options);
SearchResult search_by_tree(SearchSpace& space, const SearchOptions& options);

}  // namespace atl
