#include "partition/assignment.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.hpp"

namespace atl {

namespace {

// Sums in another order differ in their last bits; such differences are none.
bool is_less(double a, double b) { return a < b - 1e-12 * std::abs(b); }

struct Matrices {
  std::span<const std::int64_t> volume;
  std::span<const double> link_cost;
  int parts = 0;

  // The cost of both directions between two ranks with these parts on them.
  double pair(int rank, int part, int other_rank, int other_part) const {
    return static_cast<double>(volume[part * parts + other_part]) *
               link_cost[rank * parts + other_rank] +
           static_cast<double>(volume[other_part * parts + part]) *
               link_cost[other_rank * parts + rank];
  }
  // True if the costs are the same after rank r has become image[r].
  bool keeps_costs(std::span<const int> image) const {
    for (int to = 0; to < parts; ++to) {
      for (int from = 0; from < parts; ++from) {
        if (to == from) continue;
        if (link_cost[to * parts + from] != link_cost[image[to] * parts + image[from]])
          return false;
      }
    }
    return true;
  }
};

using Group = std::vector<int>;  // ascending ranks

// Ranks that may change places in pairs without a change of any cost.
std::vector<Group> equal_ranks(const Matrices& matrices) {
  std::vector<int> image(matrices.parts);
  std::iota(image.begin(), image.end(), 0);
  std::vector<Group> groups;
  for (int rank = 0; rank < matrices.parts; ++rank) {
    const auto like = std::ranges::find_if(groups, [&](const Group& group) {
      std::swap(image[rank], image[group[0]]);
      const bool same = matrices.keeps_costs(image);
      std::swap(image[rank], image[group[0]]);
      return same;
    });
    if (like == groups.end()) {
      groups.push_back({rank});
    } else {
      like->push_back(rank);
    }
  }
  return groups;
}

// For every rank, the rank before it whose part must have a smaller number, -1 if there is none:
// among orders that cost the same, one stands for all. Inside a group of equal ranks parts ascend;
// of groups that may change places as a whole, the first ranks' parts do.
std::vector<int> find_smaller_rank(const Matrices& matrices) {
  const std::vector<Group> groups = equal_ranks(matrices);
  std::vector<int> smaller(matrices.parts, -1);
  std::vector<int> image(matrices.parts);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (std::size_t i = 1; i < groups[g].size(); ++i) smaller[groups[g][i]] = groups[g][i - 1];
    for (std::size_t before = g; before-- > 0;) {
      if (groups[before].size() != groups[g].size()) continue;
      std::iota(image.begin(), image.end(), 0);
      for (std::size_t i = 0; i < groups[g].size(); ++i) {
        std::swap(image[groups[g][i]], image[groups[before][i]]);
      }
      if (!matrices.keeps_costs(image)) continue;
      smaller[groups[g][0]] = groups[before][0];
      break;
    }
  }
  return smaller;
}

// Compares all orders that differ in more than equal ranks, in alphabetical order.
class Enumeration {
 public:
  explicit Enumeration(const Matrices& matrices)
      : matrices_(matrices),
        smaller_(find_smaller_rank(matrices)),
        order_(matrices.parts, -1),
        taken_(matrices.parts, false) {
    best_.exact = true;
  }

  PartOrder run() {
    place(0, 0);
    return best_;
  }

 private:
  void place(int rank, double cost) {
    if (rank == matrices_.parts) {
      ++best_.compared;
      if (!best_.order.empty() && !is_less(cost, best_.cost)) return;
      best_.cost = cost;
      best_.order = order_;
      return;
    }
    for (int part = smaller_[rank] < 0 ? 0 : order_[smaller_[rank]] + 1; part < matrices_.parts;
         ++part) {
      if (taken_[part]) continue;
      double sum = cost;
      for (int r = 0; r < rank; ++r) sum += matrices_.pair(rank, part, r, order_[r]);
      taken_[part] = true;
      order_[rank] = part;
      place(rank + 1, sum);
      taken_[part] = false;
    }
  }

  Matrices matrices_;
  std::vector<int> smaller_;
  std::vector<int> order_;
  std::vector<bool> taken_;
  PartOrder best_;
};

// The part that exchanges most with those that have a rank goes where it costs least, one by one.
std::vector<int> greedy_order(const Matrices& matrices) {
  const int parts = matrices.parts;
  const auto exchanged = [&](int a, int b) {
    return static_cast<double>(matrices.volume[a * parts + b]) +
           static_cast<double>(matrices.volume[b * parts + a]);
  };
  std::vector<int> order(parts, -1);
  std::vector<bool> has_rank(parts, false);
  std::vector<double> tie(parts, 0.0);  // of a part to those that have a rank; first, to all
  for (int a = 0; a < parts; ++a) {
    for (int b = 0; b < parts; ++b) tie[a] += a == b ? 0 : exchanged(a, b);
  }
  for (int step = 0; step < parts; ++step) {
    int part = -1;
    for (int p = 0; p < parts; ++p) {
      if (!has_rank[p] && (part < 0 || tie[p] > tie[part])) part = p;
    }
    int best = -1;
    double least = 0;
    for (int rank = 0; rank < parts; ++rank) {
      if (order[rank] >= 0) continue;
      double cost = 0;
      for (int r = 0; r < parts; ++r) {
        if (order[r] >= 0) cost += matrices.pair(rank, part, r, order[r]);
      }
      if (best >= 0 && !is_less(cost, least)) continue;
      best = rank;
      least = cost;
    }
    if (step == 0) std::ranges::fill(tie, 0.0);
    order[best] = part;
    has_rank[part] = true;
    for (int p = 0; p < parts; ++p) tie[p] += exchanged(p, part);
  }
  return order;
}

// The saving if the ranks `a` and `b` exchange their parts.
double saving(const Matrices& matrices, std::span<const int> order, int a, int b) {
  double before = matrices.pair(a, order[a], b, order[b]);
  double after = matrices.pair(a, order[b], b, order[a]);
  for (int r = 0; r < matrices.parts; ++r) {
    if (r == a || r == b) continue;
    before += matrices.pair(a, order[a], r, order[r]) + matrices.pair(b, order[b], r, order[r]);
    after += matrices.pair(a, order[b], r, order[r]) + matrices.pair(b, order[a], r, order[r]);
  }
  return is_less(after, before) ? before - after : 0;
}

void improve_by_swaps(const Matrices& matrices, std::vector<int>& order) {
  for (bool improved = true; improved;) {
    improved = false;
    for (int a = 0; a < matrices.parts; ++a) {
      for (int b = a + 1; b < matrices.parts; ++b) {
        if (saving(matrices, order, a, b) <= 0) continue;
        std::swap(order[a], order[b]);
        improved = true;
      }
    }
  }
}

void check(std::span<const std::int64_t> volume, std::span<const double> link_cost, int parts) {
  const auto wanted = static_cast<std::size_t>(parts) * static_cast<std::size_t>(parts);
  if (parts < 1 || volume.size() != wanted || link_cost.size() != wanted) {
    fail_input("{} volumes and {} link costs for {} parts; allowed are {} of each", volume.size(),
               link_cost.size(), parts, wanted);
  }
  for (std::size_t i = 0; i < wanted; ++i) {
    const std::size_t to = i / parts;
    const std::size_t from = i % parts;
    if (to == from) continue;
    if (volume[i] < 0) {
      fail_input("volume from part {} to part {}: {} rows; allowed are numbers from 0 on", from, to,
                 volume[i]);
    }
    if (!std::isfinite(link_cost[i]) || link_cost[i] < 0) {
      fail_input("link cost from rank {} to rank {}: {}; allowed are finite numbers from 0 on",
                 from, to, link_cost[i]);
    }
  }
}

}  // namespace

double order_cost(std::span<const std::int64_t> volume, std::span<const double> link_cost,
                  std::span<const int> order) {
  const Matrices matrices{volume, link_cost, static_cast<int>(order.size())};
  double sum = 0;
  for (int a = 0; a < matrices.parts; ++a) {
    for (int b = 0; b < a; ++b) sum += matrices.pair(a, order[a], b, order[b]);
  }
  return sum;
}

PartOrder best_part_order(std::span<const std::int64_t> volume, std::span<const double> link_cost,
                          int parts) {
  check(volume, link_cost, parts);
  const Matrices matrices{volume, link_cost, parts};
  if (parts <= kMostExactParts) return Enumeration(matrices).run();
  PartOrder best;
  best.order.resize(parts);
  std::iota(best.order.begin(), best.order.end(), 0);
  std::vector<int> greedy = greedy_order(matrices);
  improve_by_swaps(matrices, best.order);
  improve_by_swaps(matrices, greedy);
  best.cost = order_cost(volume, link_cost, best.order);
  const double cost = order_cost(volume, link_cost, greedy);
  if (is_less(cost, best.cost)) {
    best.cost = cost;
    best.order = std::move(greedy);
  }
  return best;
}

}  // namespace atl
