#include "engine/placement/search_state.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.hpp"

namespace atl {

namespace {

constexpr double kSwaps = 0.3;

void check_budget(const SearchOptions& options) {
  if (options.evaluations < 1) {
    fail_option(
        "the search budget is {} evaluations; allowed are 1 or more, because the start counts",
        options.evaluations);
  }
  if (!(options.seconds >= 0)) {
    fail_option("the search budget is {} seconds; allowed are 0 (no limit) or more",
                options.seconds);
  }
}

}  // namespace

SearchState::SearchState(SearchSpace& space, const SearchOptions& options, Memory memory)
    : space_(space),
      options_(options),
      memory_(memory),
      began_(std::chrono::steady_clock::now()),
      draws_(options.seed),
      choices_(count_choices(space)),
      start_(space.start()) {
  check_budget(options);
  ATOLL_ASSERT(static_cast<int>(start_.size()) == space.decisions());
  const PlanCost cost = evaluate_now(start_);
  if (memory_ == Memory::kRemember) remembered_.emplace(start_, cost);
  best_ = start_;
  improvements_.push_back({.evaluations = 1, .cost = cost});
}

PlanCost SearchState::evaluate_now(std::span<const int> choice) {
  for (int d = 0; d < static_cast<int>(choice.size()); ++d) {
    ATOLL_ASSERT(choice[d] >= 0 && choice[d] < space_.options(d), "decision {} takes option {}", d,
                 choice[d]);
  }
  ++evaluations_;
  const PlanCost cost = space_.evaluate(choice);
  ATOLL_ASSERT(std::isfinite(cost.seconds) && cost.seconds >= 0 && cost.missing_bytes >= 0,
               "a plan of {} s that lacks {} bytes", cost.seconds, cost.missing_bytes);
  return cost;
}

bool SearchState::out_of_time() const {
  if (options_.seconds == 0) return false;
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - began_;
  return passed.count() >= options_.seconds;
}

std::optional<PlanCost> SearchState::evaluate(std::span<const int> choice) {
  if (out_of_time()) return std::nullopt;
  std::vector<int> key(choice.begin(), choice.end());
  if (memory_ == Memory::kForget && key == start_) return start_cost();
  const auto place = remembered_.lower_bound(key);
  if (place != remembered_.end() && place->first == key) return place->second;
  if (evaluations_ >= options_.evaluations) return std::nullopt;
  const PlanCost cost = evaluate_now(choice);
  if (is_better(cost, best_cost())) {
    best_ = key;
    improvements_.push_back({.evaluations = evaluations_, .cost = cost});
  }
  if (memory_ == Memory::kRemember) remembered_.emplace_hint(place, std::move(key), cost);
  return cost;
}

int SearchState::draw_other_option(const std::vector<int>& choice, int decision) {
  const int other = draws_.below(space_.options(decision) - 1);
  return other < choice[decision] ? other : other + 1;
}

bool SearchState::make_move(int first, const DrawOption& draw, std::vector<int>& choice) {
  const int free = space_.decisions() - first;
  if (free == 0) return false;
  const int d = first + draws_.below(free);
  if (draws_.unit() >= kSwaps) {
    if (space_.options(d) == 1) return false;
    const int option = draw(choice, d);
    const bool moves = option != choice[d];
    choice[d] = option;
    return moves;
  }
  const int e = first + draws_.below(free);
  if (choice[d] == choice[e] || choice[d] >= space_.options(e) || choice[e] >= space_.options(d)) {
    return false;
  }
  std::swap(choice[d], choice[e]);
  return true;
}

SearchResult SearchState::result() const {
  return {.choice = best_,
          .cost = best_cost(),
          .start = start_cost(),
          .evaluations = evaluations_,
          .complete = complete(),
          .improvements = {improvements_.begin() + 1, improvements_.end()}};
}

}  // namespace atl
