// Instances of the assignment of widths for its tests, and what a choice of widths costs by the
// formulas of the header.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>
#include <ostream>
#include <random>
#include <set>
#include <vector>

#include "engine/exchange/messages/bit_assignment.hpp"
#include "engine/exchange/messages/link_budget.hpp"

namespace atl {

using Assigned = std::vector<std::vector<std::uint8_t>>;

// The wire format of docs: 4 bytes of metadata and codes padded to 4 bytes; at 32 bits as stored.
inline std::vector<TravelCost> costs_of(std::int64_t cols, std::int64_t stored_bytes,
                                        const std::array<double, 5>& ratio = {1, 1, 1, 1, 1}) {
  std::vector<TravelCost> costs;
  for (std::size_t k = 0; k < 5; ++k) {
    const double levels = std::ldexp(1.0, kWireBits[k]) - 1;
    costs.push_back({ratio[k] / (levels * levels), 4 + (cols * kWireBits[k] + 31) / 32 * 4});
  }
  costs.push_back({0, cols * stored_bytes});
  return costs;
}

// The betas of all links of all ranks, with what the spans of a ChannelProblem point to.
struct Instance {
  std::vector<TravelCost> costs;
  std::vector<std::vector<float>> betas;
  std::vector<LinkTime> links;
  double central_s = 0;
  double quantize_s = 0;
  std::optional<double> unit_variance = std::nullopt;
  std::optional<std::size_t> unit_time = std::nullopt;

  ChannelProblem problem() const { return problem(0, links.size()); }
  ChannelProblem problem(std::size_t first, std::size_t end) const {
    ChannelProblem problem{.choices = costs,
                           .links = {},
                           .unit_variance = unit_variance,
                           .unit_time = unit_time,
                           .central_s = central_s,
                           .quantize_s = quantize_s};
    for (std::size_t l = first; l < end; ++l) problem.links.push_back({betas[l], links[l]});
    return problem;
  }
};

struct AssignmentOutcome {
  double variance = 0, time_s = 0, objective = 0;
};

// By the formulas of the header and nothing else.
inline AssignmentOutcome evaluate(const Instance& instance, const Assigned& chosen, double lambda) {
  const auto measure = [&](auto width_of, bool& exact) {
    AssignmentOutcome outcome{.time_s = instance.central_s};
    exact = true;
    for (std::size_t l = 0; l < instance.links.size(); ++l) {
      std::int64_t bytes = 0;
      for (std::size_t k = 0; k < instance.betas[l].size(); ++k) {
        const int place = width_of(l, k);
        bytes += instance.costs[place].bytes;
        outcome.variance += instance.betas[l][k] * instance.costs[place].variance;
        exact = exact && place + 1 == std::ssize(instance.costs);
      }
      if (!instance.betas[l].empty()) {
        outcome.time_s = std::max(outcome.time_s, instance.links[l].seconds(bytes));
      }
    }
    if (!exact) outcome.time_s += instance.quantize_s;
    return outcome;
  };
  bool exact = false;
  AssignmentOutcome outcome =
      measure([&](std::size_t l, std::size_t k) { return static_cast<int>(chosen[l][k]); }, exact);
  const auto all = [&](std::size_t choice) {
    return measure([=](std::size_t, std::size_t) { return static_cast<int>(choice); }, exact);
  };
  const double unit_variance = instance.unit_variance.value_or(all(0).variance);
  double unit_time = all(instance.unit_time.value_or(instance.costs.size() - 1)).time_s;
  if (!exact) unit_time -= instance.quantize_s;
  outcome.objective = (unit_variance > 0 ? lambda * outcome.variance / unit_variance : 0.0) +
                      (unit_time > 0 ? (1 - lambda) * outcome.time_s / unit_time : 0.0);
  return outcome;
}

using Random = std::mt19937;

inline double uniform(Random& random, double low, double high) {
  return low + (high - low) * (static_cast<double>(random()) / 4294967296.0);
}

inline double one_of(Random& random, const std::vector<double>& values) {
  return values[random() % values.size()];
}

inline std::vector<float> random_betas(Random& random, std::size_t count) {
  std::vector<float> betas(count);
  const auto kind = random() % 5;
  for (float& beta : betas) {
    switch (kind) {
      case 0:
        beta = 0.75f;
        break;
      case 1:
        beta = static_cast<float>(std::exp(uniform(random, -40, 40)));
        break;
      case 2:
        beta = random() % 2 == 0 ? 0.0f : static_cast<float>(uniform(random, 0, 1));
        break;
      default:
        beta = static_cast<float>(std::exp(uniform(random, -2, 2)));
    }
  }
  return betas;
}

inline std::array<double, 5> random_ratios(Random& random) {
  std::array<double, 5> ratios;
  for (double& ratio : ratios) ratio = uniform(random, 0.2, 1.4);
  return ratios;
}

// The source that instances are drawn from. The first has every kind of corner; the second only
// links of similar speed and times that compete, where nearly all solutions mix widths.
struct Mixture {
  const char* name;
  std::vector<double> thetas, gammas, lambdas;
  std::vector<double> central, quantize;  // shares of the slowest link's time at 32 bits
};
inline void PrintTo(const Mixture& mixture, std::ostream* stream) { *stream << mixture.name; }

inline const std::array<Mixture, 2> kMixtures = {Mixture{.name = "Corners",
                                                         .thetas = {0, 1e-9, 1e-8, 1.7e-8, 1e-7},
                                                         .gammas = {0, 0, 1e-5},
                                                         .lambdas = {0, 0.1, 0.5, 0.9, 1},
                                                         .central = {0, 0, 0.05, 0.5, 2},
                                                         .quantize = {0, 0, 0.1, 2}},
                                                 Mixture{.name = "CloseCalls",
                                                         .thetas = {1e-8, 1.3e-8, 1.7e-8},
                                                         .gammas = {0, 0, 1e-6},
                                                         .lambdas = {0, 0.5, 0.9, 0.99, 0.999},
                                                         .central = {0, 0.03, 0.1, 0.2, 0.3},
                                                         .quantize = {0}}};

// `messages` over 1 to 3 links at random.
inline Instance random_instance(Random& random, const Mixture& mixture, std::size_t messages) {
  Instance instance;
  instance.costs = costs_of(1 + random() % 300, random() % 2 == 0 ? 2 : 4, random_ratios(random));
  const std::size_t links = 1 + random() % 3;
  std::vector<std::size_t> counts(links, 0);
  for (std::size_t k = 0; k < messages; ++k) ++counts[random() % links];
  double slowest = 0;
  for (const std::size_t count : counts) {
    LinkTime cost{.wire = {.theta_s_per_byte = one_of(random, mixture.thetas),
                           .gamma_s = one_of(random, mixture.gammas)},
                  .cover = {}};
    // Work that hides the wire and grows with its bytes, for half of the links.
    if (random() % 2 == 0) {
      cost.cover = {.theta_s_per_byte = 0.3 * one_of(random, mixture.thetas),
                    .gamma_s = 4 * one_of(random, mixture.gammas)};
    }
    instance.betas.push_back(random_betas(random, count));
    instance.links.push_back(cost);
    slowest = std::max(
        slowest, cost.seconds(static_cast<std::int64_t>(count) * instance.costs.back().bytes));
  }
  instance.central_s = one_of(random, mixture.central) * slowest;
  instance.quantize_s = one_of(random, mixture.quantize) * slowest;
  return instance;
}

inline Assigned widths_of(const ChannelAssignment& assignment) {
  Assigned bits = assignment.chosen;
  for (auto& link : bits) {
    for (std::uint8_t& choice : link) choice = static_cast<std::uint8_t>(kWireBits[choice]);
  }
  return bits;
}

// With the widths that the choices of costs_of() are.
struct AssignedBits : ChannelAssignment {
  Assigned bits;
};
inline AssignedBits assign(const Instance& instance, double lambda) {
  const ChannelProblem problem = instance.problem();
  ChannelAssignment found = assign_bits({&problem, 1}, lambda).front();
  Assigned bits = widths_of(found);
  return {std::move(found), std::move(bits)};
}

// `messages` per link; the spread of the betas is what rows of one layer show.
inline Instance large_instance(std::size_t messages, std::vector<double> thetas) {
  Random random(7);
  Instance instance;
  instance.costs = costs_of(256, 4);
  for (const double theta : thetas) {
    std::vector<float> betas(messages);
    for (float& beta : betas) beta = static_cast<float>(std::exp(uniform(random, -4, 4)));
    instance.betas.push_back(betas);
    instance.links.push_back({.wire = {.theta_s_per_byte = theta, .gamma_s = 1e-4}, .cover = {}});
  }
  return instance;
}

inline bool mixes_widths(const Assigned& bits) {
  std::set<std::uint8_t> widths;
  for (const auto& link : bits) widths.insert(link.begin(), link.end());
  return widths.size() > 1;
}

}  // namespace atl
