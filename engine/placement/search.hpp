// Strategy search: finds a good assignment of options to decisions by as few evaluations as it can.
// Knows nothing of graphs; see plan_search for what is decided and how it is evaluated (TAG, arXiv
// 2302.06126, section 4).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace atl {

// The cost of an assignment.
struct PlanCost {
  double seconds = 0;        // of an epoch
  double missing_bytes = 0;  // memory that lacks; 0: it fits
};

// Decisions are numbered from the one that weighs most. A choice is an option per decision.
class SearchSpace {
 public:
  virtual ~SearchSpace() = default;
  virtual int decisions() const = 0;
  virtual int options(int decision) const = 0;  // at least 1
  // The choice everything is compared with, and of which every search starts.
  virtual std::vector<int> start() const = 0;
  // An undecided decision takes the option that decision `model_of(d)` < d has, where that is one
  // of its options; -1: it keeps that of start().
  virtual int model_of(int /*decision*/) const { return -1; }
  // Deterministic.
  virtual PlanCost evaluate(std::span<const int> choice) = 0;
};

// The full choice whose first decisions are `chosen`; the others inherit (model_of).
std::vector<int> inherit(const SearchSpace& space, std::vector<int> start,
                         std::span<const int> chosen);
// As many choices as the space has; 2^64 - 1 where there are more.
std::uint64_t count_choices(const SearchSpace& space);

// Probabilities of the options of `decision` when those before it are chosen; sum 1.
using Prior = std::function<std::vector<double>(SearchSpace& space, std::span<const int> chosen,
                                                int decision)>;
std::vector<double> uniform_prior(SearchSpace& space, std::span<const int> chosen, int decision);

struct SearchOptions {
  int evaluations = 500;  // at most; the start counts
  double seconds = 0;     // at most; 0: no limit
  std::uint64_t seed = 1;
  Prior prior = {};  // mcts: empty is uniform
};

struct SearchStep {
  int evaluations = 0;  // made when it was found
  PlanCost cost;
};

struct SearchResult {
  std::vector<int> choice;
  PlanCost cost;
  PlanCost start;
  int evaluations = 0;
  bool complete = false;  // every choice was looked at: this is the optimum
  std::vector<SearchStep> improvements;
};

// "exhaustive", "random", "greedy", "mcmc", "mcts".
std::vector<std::string> search_strategies();
// Searches by the strategy of that name. Throws Error{kOption} listing the valid names.
SearchResult search(const std::string& name, SearchSpace& space, const SearchOptions& options);

// True if `a` is better than `b`: what fits before what does not, then less missing, then faster.
bool is_better(const PlanCost& a, const PlanCost& b);

}  // namespace atl
