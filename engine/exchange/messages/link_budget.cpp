#include "engine/exchange/messages/link_budget.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.hpp"

namespace atl {

namespace {

bool fewer_bytes_then_variance(const TravelCost& a, const TravelCost& b) {
  return a.bytes != b.bytes ? a.bytes < b.bytes : a.variance < b.variance;
}

double gain_between(const TravelCost& less, const TravelCost& more) {
  return (less.variance - more.variance) / static_cast<double>(more.bytes - less.bytes);
}

struct KeyedRow {
  std::uint32_t key;
  std::uint32_t row;
};

// Stable, by rising key. Three passes over 11 bits each beat std::sort tenfold at 100,000 rows.
void radix_sort(std::vector<KeyedRow>& rows) {
  constexpr int kPasses = 3;
  constexpr int kDigitBits = 11;
  constexpr std::uint32_t kDigits = 1u << kDigitBits;
  std::vector<std::uint32_t> counts(kPasses * kDigits, 0);
  const auto digit = [](std::uint32_t key, int pass) {
    return (key >> (pass * kDigitBits)) & (kDigits - 1);
  };
  for (const KeyedRow& row : rows) {
    for (int pass = 0; pass < kPasses; ++pass) ++counts[pass * kDigits + digit(row.key, pass)];
  }
  std::vector<KeyedRow> sorted(rows.size());
  for (int pass = 0; pass < kPasses; ++pass) {
    std::uint32_t* places = counts.data() + pass * kDigits;
    std::exclusive_scan(places, places + kDigits, places, 0u);
    for (const KeyedRow& row : rows) sorted[places[digit(row.key, pass)]++] = row;
    rows.swap(sorted);
  }
}

StepCounts all_steps(std::size_t messages) {
  StepCounts all;
  all.fill(static_cast<std::int64_t>(messages));
  return all;
}

}  // namespace

ChoiceHull make_hull(std::span<const TravelCost> choices) {
  ATOLL_ASSERT(choices.size() <= kMostChoices, "{} choices", choices.size());
  std::vector<std::uint8_t> order(choices.size());
  std::iota(order.begin(), order.end(), std::uint8_t{0});
  std::sort(order.begin(), order.end(), [&](std::uint8_t a, std::uint8_t b) {
    return fewer_bytes_then_variance(choices[a], choices[b]);
  });
  std::vector<std::uint8_t> hull;
  for (const std::uint8_t choice : order) {
    const TravelCost& cost = choices[choice];
    if (!hull.empty() && cost.variance >= choices[hull.back()].variance) continue;
    while (hull.size() >= 2 && gain_between(choices[hull[hull.size() - 2]], choices[hull.back()]) <=
                                   gain_between(choices[hull.back()], cost)) {
      hull.pop_back();
    }
    hull.push_back(choice);
  }
  ChoiceHull result{.least = hull[0], .least_bytes = choices[hull[0]].bytes, .steps = {}};
  for (std::size_t k = 1; k < hull.size(); ++k) {
    const TravelCost& less = choices[hull[k - 1]];
    const TravelCost& more = choices[hull[k]];
    result.steps.push_back({.bytes = more.bytes - less.bytes,
                            .variance = less.variance - more.variance,
                            .gain = gain_between(less, more),
                            .choice = hull[k]});
  }
  return result;
}

LinkBudget::LinkBudget(const LinkProblem& link, const ChoiceHull& hull)
    : cost_(link.cost), hull_(hull) {
  const std::size_t messages = link.beta.size();
  ATOLL_ASSERT(messages < std::numeric_limits<std::uint32_t>::max());
  std::vector<KeyedRow> rows(messages);
  for (std::size_t k = 0; k < messages; ++k) {
    const float beta = link.beta[k];
    ATOLL_ASSERT(beta >= 0 && std::isfinite(beta), "beta {} of message {}", beta, k);
    // The bits of floats that aren't negative rise with them; adding 0 makes -0 the only 0.
    rows[k] = {~std::bit_cast<std::uint32_t>(beta + 0.0f), static_cast<std::uint32_t>(k)};
  }
  radix_sort(rows);
  order_.resize(messages);
  beta_.resize(messages);
  for (std::size_t k = 0; k < messages; ++k) {
    order_[k] = rows[k].row;
    beta_[k] = std::bit_cast<float>(~rows[k].key);
  }
  tail_.resize(messages + 1);
  tail_[messages] = 0;
  for (std::size_t k = messages; k-- > 0;) tail_[k] = tail_[k + 1] + beta_[k];
  while (!beta_.empty() && beta_.back() == 0) beta_.pop_back();
}

double LinkBudget::least_seconds() const {
  return order_.empty() ? 0.0 : cost_.seconds(bytes_of({}));
}

double LinkBudget::most_seconds() const {
  return order_.empty() ? 0.0 : cost_.seconds(bytes_of(all_steps(order_.size())));
}

// Steps of all messages stand in one order: falling gain, then step, then message. The longest of
// its prefixes whose steps take at most `bytes` is found by bisection in all steps at once, between
// a prefix that fits and one that is long enough: each trial shrinks the interval of every count.
StepCounts LinkBudget::longest_prefix(double bytes, StepCounts low, StepCounts high) const {
  const auto& steps = hull_.steps;
  const int count = static_cast<int>(steps.size());
  while (true) {
    int widest = 0;
    for (int j = 1; j < count; ++j) {
      if (high[j] - low[j] > high[widest] - low[widest]) widest = j;
    }
    if (count == 0 || high[widest] == low[widest]) return low;
    const std::int64_t middle = low[widest] + (high[widest] - low[widest]) / 2;
    const double gain = beta_[middle] * steps[widest].gain;
    StepCounts taken{};
    double used = 0;
    for (int j = 0; j < count; ++j) {
      const double factor = steps[j].gain;
      if (j == widest) {
        taken[j] = middle + 1;
      } else {
        const auto end = std::partition_point(
            beta_.begin() + low[j], beta_.begin() + high[j],
            [&](float beta) { return j < widest ? beta * factor >= gain : beta * factor > gain; });
        taken[j] = end - beta_.begin();
      }
      used += static_cast<double>(taken[j] * steps[j].bytes);
    }
    if (used <= bytes) {
      low = taken;
    } else {
      high = taken;
      high[widest] = middle;
    }
  }
}

// Rising bytes: each prefix lies between the one before and the last.
std::vector<StepCounts> LinkBudget::longest_prefixes(const std::vector<double>& bytes) const {
  const StepCounts last = longest_prefix(bytes.back(), {}, all_steps(beta_.size()));
  std::vector<StepCounts> prefixes;
  for (const double most : bytes) {
    prefixes.push_back(
        longest_prefix(most, prefixes.empty() ? StepCounts{} : prefixes.back(), last));
  }
  return prefixes;
}

// The gain of the first step after a prefix; 0 if there is none.
double LinkBudget::next_gain(const StepCounts& taken) const {
  double gain = 0;
  for (std::size_t j = 0; j < hull_.steps.size(); ++j) {
    if (taken[j] == static_cast<std::int64_t>(beta_.size())) continue;
    gain = std::max(gain, beta_[taken[j]] * hull_.steps[j].gain);
  }
  return gain;
}

std::vector<LinkBudget::Relaxed> LinkBudget::relax(std::span<const double> seconds) const {
  const auto least_bytes = static_cast<double>(bytes_of({}));
  // The bytes that either line has room for; the lesser counts, and its slope.
  std::vector<double> room, seconds_per_byte;
  for (const double most : seconds) {
    room.push_back(std::numeric_limits<double>::infinity());
    seconds_per_byte.push_back(0);
    for (const LinkCost& line : {cost_.wire, cost_.cover}) {
      if (line.theta_s_per_byte <= 0) continue;
      const double within =
          std::max(0.0, (most - line.gamma_s) / line.theta_s_per_byte - least_bytes);
      if (within > room.back()) continue;
      const bool tie = within == room.back();
      room.back() = within;
      seconds_per_byte.back() =
          tie ? std::max(seconds_per_byte.back(), line.theta_s_per_byte) : line.theta_s_per_byte;
    }
  }
  const std::vector<StepCounts> prefixes = longest_prefixes(room);
  std::vector<Relaxed> relaxed;
  for (std::size_t k = 0; k < room.size(); ++k) {
    Relaxed& one = relaxed.emplace_back(Relaxed{.variance = variance_of(prefixes[k])});
    const double gain = next_gain(prefixes[k]);
    if (gain == 0) continue;  // everything is taken: the room may be infinite
    const double used = static_cast<double>(bytes_of(prefixes[k])) - least_bytes;
    one.variance -= gain * (room[k] - used);
    one.slope = -gain / seconds_per_byte[k];
  }
  return relaxed;
}

std::vector<LinkBudget::Rounded> LinkBudget::round(std::span<const double> seconds) const {
  std::vector<double> room;
  for (const double most : seconds) {
    room.push_back(static_cast<double>(bytes_within(most) - bytes_of({})));
  }
  const std::vector<StepCounts> prefixes = longest_prefixes(room);
  std::vector<Rounded> rounded;
  for (std::size_t k = 0; k < room.size(); ++k) {
    Rounded& one = rounded.emplace_back(Rounded{.taken = prefixes[k]});
    fill(one.taken, bytes_of({}) + static_cast<std::int64_t>(room[k]) - bytes_of(one.taken));
    one.variance = variance_of(one.taken);
    one.seconds = order_.empty() ? 0.0 : cost_.seconds(bytes_of(one.taken));
  }
  return rounded;
}

// Bounded: the room is smaller than one step, so at most the ratio of the largest step to the
// smallest are taken.
void LinkBudget::fill(StepCounts& taken, std::int64_t room) const {
  while (true) {
    int best = -1;
    double most = 0;
    for (int j = 0; j < static_cast<int>(hull_.steps.size()); ++j) {
      const auto end = j == 0 ? static_cast<std::int64_t>(beta_.size()) : taken[j - 1];
      if (taken[j] == end || hull_.steps[j].bytes > room) continue;
      const double saved = beta_[taken[j]] * hull_.steps[j].variance;
      if (saved > most) {
        most = saved;
        best = j;
      }
    }
    if (best < 0) return;
    ++taken[best];
    room -= hull_.steps[best].bytes;
  }
}

// The most bytes, up to all messages at their most, whose time as computed is at most `seconds`:
// found by bisection because a division would be off by some bytes after rounding.
std::int64_t LinkBudget::bytes_within(double seconds) const {
  std::int64_t low = bytes_of({}), high = bytes_of(all_steps(order_.size()));
  while (low < high) {
    const std::int64_t middle = low + (high - low + 1) / 2;
    if (cost_.seconds(middle) <= seconds) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

std::int64_t LinkBudget::bytes_of(const StepCounts& taken) const {
  auto bytes = static_cast<std::int64_t>(order_.size()) * hull_.least_bytes;
  for (std::size_t j = 0; j < hull_.steps.size(); ++j) bytes += taken[j] * hull_.steps[j].bytes;
  return bytes;
}

// A message that stays below a step pays what the step would save; at the last nothing is left.
// Sums of what is paid, not differences to what all would pay: those would lose small numbers.
double LinkBudget::variance_of(const StepCounts& taken) const {
  double variance = 0;
  for (std::size_t j = 0; j < hull_.steps.size(); ++j) {
    variance += hull_.steps[j].variance * tail_[taken[j]];
  }
  return variance;
}

std::vector<std::uint8_t> LinkBudget::chosen(const StepCounts& taken) const {
  std::vector<std::uint8_t> chosen(order_.size(), hull_.least);
  for (std::size_t j = 0; j < hull_.steps.size(); ++j) {
    const std::int64_t next = j + 1 < hull_.steps.size() ? taken[j + 1] : 0;
    for (std::int64_t k = next; k < taken[j]; ++k) chosen[order_[k]] = hull_.steps[j].choice;
  }
  return chosen;
}

}  // namespace atl
