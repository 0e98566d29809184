// Random plans small enough to look at all of them: parts of a graph on a few ranks of uneven speed
// in two islands, trained layer by layer. What a choice costs is a makespan, so decisions act on
// each other through the slowest rank, the slowest link and the memory.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <random>
#include <span>
#include <vector>

#include "engine/placement/search.hpp"

namespace atl {

class MakespanSpace : public SearchSpace {
 public:
  // Has 10,000 to 400,000 choices.
  explicit MakespanSpace(unsigned seed) : random_(seed) {
    do {
      decisions_.clear();
      draw_machine();
      draw_graph();
      draw_decisions();
    } while (choices() < 10000 || choices() > 400000);
  }

  double choices() const {
    double product = 1;
    for (const Decision& decision : decisions_) product *= decision.options;
    return product;
  }

  int decisions() const override { return static_cast<int>(decisions_.size()); }
  int options(int d) const override { return decisions_[d].options; }
  int model_of(int d) const override { return decisions_[d].model; }
  std::vector<int> start() const override {
    std::vector<int> choice;
    for (const Decision& decision : decisions_) choice.push_back(decision.start);
    return choice;
  }

  PlanCost evaluate(std::span<const int> choice) override {
    read(choice);
    PlanCost cost{.seconds = synchronisation_seconds(), .missing_bytes = missing_bytes()};
    for (int layer = 0; layer < layers_; ++layer) cost.seconds += layer_seconds(layer);
    return cost;
  }

 private:
  static constexpr int kMostRanks = 4;
  static constexpr int kMostLayers = 3;
  static constexpr std::array<double, 4> kWidths = {1.0, 0.25, 0.125, 0.0625};  // of 32 bits

  enum class Kind { kRankOfPart, kWidth, kOrder, kCache, kSynchronisation };
  struct Decision {
    Kind kind;
    int index;  // part or layer
    int options;
    int start;
    int model;
  };

  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  double uniform(double low, double high) {
    return low + (high - low) * (static_cast<double>(random_()) / 4294967296.0);
  }

  void draw_machine() {
    ranks_ = 2 + below(3);
    slow_rank_ = below(ranks_ + 1);  // ranks_: none
    for (int r = 0; r < ranks_; ++r) {
      speed_[r] = uniform(0.9, 1.1) * (r == slow_rank_ ? 0.5 : 1.0);
    }
    fast_link_ = uniform(4, 16);
    slow_link_ = fast_link_ / uniform(2, 20);
    progress_ = uniform(0, 0.3);
  }

  void draw_graph() {
    parts_ = ranks_ == 2 ? 6 + below(4) : ranks_ + 1 + below(3);
    layers_ = 2 + below(2);
    work_.clear();
    for (int p = 0; p < parts_; ++p) work_.push_back(uniform(0.5, 1.5) / parts_);
    std::ranges::sort(work_, std::greater<>{});
    traffic_.assign(static_cast<std::size_t>(parts_ * parts_), 0.0);
    for (int p = 0; p < parts_; ++p) {
      for (int q = 0; q < parts_; ++q) {
        if (p != q && below(3) > 0) traffic_[p * parts_ + q] = uniform(0.0, 4.0) / parts_;
      }
    }
    memory_ = least_memory() * uniform(1.0, 2.0);
    for (int layer = 0; layer < layers_; ++layer) {
      work_of_layer_[layer] = uniform(0.3, 2.0);
      bytes_of_layer_[layer] = uniform(0.2, 2.0);
      order_bytes_[layer] = uniform(0.4, 2.0);
      order_work_[layer] = uniform(0.6, 1.6);
      quantize_[layer] = uniform(0.0, 0.3);
      weight_bytes_[layer] = uniform(0.0, 0.5);
    }
  }

  // Enough for one way to lay the parts over the ranks: largest first, where there is most space.
  double least_memory() const {
    std::array<double, kMostRanks> used{};
    for (const double work : work_) *std::min_element(used.begin(), used.begin() + ranks_) += work;
    return *std::ranges::max_element(used);
  }

  void draw_decisions() {
    // As TAG has it, all parts follow the first; or every part stays on its rank.
    const bool all_follow = below(3) == 0;
    for (int p = 0; p < parts_; ++p) {
      const bool follows = all_follow && p > 0;
      decisions_.push_back(
          {Kind::kRankOfPart, p, ranks_, all_follow ? 0 : p % ranks_, follows ? 0 : -1});
    }
    add_per_layer(Kind::kWidth, static_cast<int>(kWidths.size()) - below(2));
    if (below(2) == 0) add_per_layer(Kind::kOrder, 2);
    if (below(2) == 0) decisions_.push_back({Kind::kCache, 0, 2, 0, -1});
    if (below(2) == 0) add_per_layer(Kind::kSynchronisation, 3);
  }

  void add_per_layer(Kind kind, int options) {
    const int first = decisions();
    for (int layer = 0; layer < layers_; ++layer) {
      decisions_.push_back({kind, layer, options, 0, layer == 0 ? -1 : first});
    }
  }

  void read(std::span<const int> choice) {
    width_.fill(0);
    order_.fill(0);
    synchronisation_.fill(0);
    cached_ = 0;
    rank_of_.resize(static_cast<std::size_t>(parts_));
    for (int d = 0; d < decisions(); ++d) {
      const int index = decisions_[d].index;
      switch (decisions_[d].kind) {
        case Kind::kRankOfPart:
          rank_of_[index] = choice[d];
          break;
        case Kind::kWidth:
          width_[index] = choice[d];
          break;
        case Kind::kOrder:
          order_[index] = choice[d];
          break;
        case Kind::kCache:
          cached_ = choice[d];
          break;
        case Kind::kSynchronisation:
          synchronisation_[index] = choice[d];
          break;
      }
    }
  }

  double link(int from, int to) const { return from / 2 == to / 2 ? fast_link_ : slow_link_; }

  // Each rank computes while its links are busy; all wait for the last. Links between islands share
  // one card.
  double layer_seconds(int layer) const {
    std::array<double, kMostRanks> compute{}, quantized{}, wire{};
    double shared = 0;
    const bool constant = layer == 0 && cached_ == 1;
    const double width = kWidths[width_[layer]];
    const double scale = bytes_of_layer_[layer] * (order_[layer] == 1 ? order_bytes_[layer] : 1.0);
    for (int p = 0; p < parts_; ++p) {
      const int r = rank_of_[p];
      compute[r] += work_[p] * work_of_layer_[layer] *
                    (order_[layer] == 1 ? order_work_[layer] : 1) * (constant ? 0.4 : 1.0) /
                    speed_[r];
      for (int q = 0; q < parts_ && !constant; ++q) {
        const int to = rank_of_[q];
        if (to == r) continue;
        const double bytes = traffic_[p * parts_ + q] * scale;
        wire[r] += bytes * width / link(r, to);
        if (r / 2 != to / 2) shared += bytes * width / slow_link_;
        if (width < 1) quantized[r] += bytes * quantize_[layer] / speed_[r];
        compute[r] += progress_ * bytes * width / speed_[r];
      }
    }
    double seconds = shared;
    for (int r = 0; r < ranks_; ++r) {
      seconds = std::max(seconds, std::max(0.8 * compute[r], wire[r]) + 0.2 * compute[r]);
      seconds = std::max(seconds, quantized[r] + std::max(compute[r], wire[r]));
    }
    return seconds;
  }

  // Over the slow link; by islands, which costs a step more; at rank 0, which adds up alone.
  double synchronisation_seconds() const {
    double seconds = 0, at_first = 0;
    for (int layer = 0; layer < layers_; ++layer) {
      const double bytes = weight_bytes_[layer] / (ranks_ > 2 ? slow_link_ : fast_link_);
      switch (synchronisation_[layer]) {
        case 0:
          seconds += bytes;
          break;
        case 1:
          seconds += 0.5 * bytes + weight_bytes_[layer] / fast_link_ + 0.002;
          break;
        default:
          at_first += 0.3 * bytes + weight_bytes_[layer] * 0.05 / speed_[0];
          break;
      }
    }
    return std::max(seconds, at_first) + 0.2 * std::min(seconds, at_first);
  }

  double missing_bytes() const {
    std::array<double, kMostRanks> used{};
    for (int p = 0; p < parts_; ++p) used[rank_of_[p]] += work_[p] * (1 + 0.4 * cached_);
    double missing = 0;
    for (int r = 0; r < ranks_; ++r) missing += std::max(0.0, used[r] - memory_);
    return missing;
  }

  std::mt19937 random_;
  std::vector<Decision> decisions_;
  int ranks_ = 0, parts_ = 0, layers_ = 0, slow_rank_ = 0;
  double fast_link_ = 0, slow_link_ = 0, memory_ = 0, progress_ = 0;
  std::array<double, kMostRanks> speed_{};
  std::vector<double> work_, traffic_;
  std::array<double, kMostLayers> work_of_layer_{}, bytes_of_layer_{}, order_bytes_{},
      order_work_{}, quantize_{}, weight_bytes_{};
  // The choice that is evaluated.
  std::vector<int> rank_of_;
  std::array<int, kMostLayers> width_{}, order_{}, synchronisation_{};
  int cached_ = 0;
};

}  // namespace atl
