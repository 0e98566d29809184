#include "engine/placement/fair_shares.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace atl {

namespace {

constexpr std::int64_t kNeedsNone = std::numeric_limits<std::int64_t>::max();
constexpr double kNoTransfer = std::numeric_limits<double>::infinity();
// With more flows the same counts hardly ever come again.
constexpr int kMostFlows = 64;
constexpr int kPlaceBits = 10;
constexpr std::size_t kPlaces = 1 << kPlaceBits;
constexpr std::int32_t kMostKnown = 512;  // entries, so that searches in the table are short

}  // namespace

FairShares::FairShares(const Topology& topology, double tolerance)
    : topology_(topology), tolerance_(tolerance) {
  for (const Host& host : topology.hosts) cards_.push_back({.capacity = host.send_bytes_per_s});
  for (const Host& host : topology.hosts) {
    cards_.push_back({.capacity = host.receive_bytes_per_s});
  }
  shares_.resize(cards_.size());
  forget();
}

FairShares::Flow FairShares::flow(int from, int to) const {
  Flow flow{topology_.link(from, to).bytes_per_s, -1, -1};
  const int sender = topology_.device(from).host;
  const int receiver = topology_.device(to).host;
  if (sender != receiver) {
    flow.send = sender;
    flow.receive = static_cast<int>(topology_.hosts.size()) + receiver;
  }
  return flow;
}

int FairShares::add(const Flow& flow, int count) {
  const int index = flows();
  flows_.push_back(flow);
  counts_.push_back(0);
  settled_in_.push_back(kNeedsNone);
  // Powers of an odd number (Knuth's multiplier of linear congruential generators).
  constexpr std::uint64_t kBase = 6364136223846793005;
  hash_factors_.push_back(hash_factors_.empty() ? kBase : kBase * hash_factors_.back());
  forget();
  rates_.push_back(0);
  if (flow.send >= 0) {
    cards_[static_cast<std::size_t>(flow.send)].flows.push_back({index, flow.receive});
    cards_[static_cast<std::size_t>(flow.receive)].flows.push_back({index, flow.send});
  }
  const auto place = std::upper_bound(
      by_limit_.begin(), by_limit_.end(), flow.limit, [&](double limit, int other) {
        return limit < flows_[static_cast<std::size_t>(other)].limit;
      });
  by_limit_.insert(place, index);
  this->count(index, count);
  return index;
}

void FairShares::count(int flow, int change) {
  const auto f = static_cast<std::size_t>(flow);
  const bool was_active = counts_[f] > 0;
  counts_[f] += change;
  hash_ += static_cast<std::uint64_t>(change) * hash_factors_[f];
  const bool is_active = counts_[f] > 0;
  const auto [limit, send, receive] = flows_[f];
  const bool shares = send >= 0;
  if (is_active != was_active) {
    rates_[f] = is_active ? limit : 0;
    if (shares) settled_in_[f] = is_active ? 0 : kNeedsNone;
    if (shares) active_ += is_active ? 1 : -1;
  }
  if (!shares) return;
  cards_[static_cast<std::size_t>(send)].transfers += change;
  cards_[static_cast<std::size_t>(receive)].transfers += change;
}

void FairShares::count_none() {
  for (int flow = 0; flow < flows(); ++flow) {
    count(flow, -counts_[static_cast<std::size_t>(flow)]);
  }
}

std::size_t FairShares::place_of_counts() const {
  const std::size_t flows = counts_.size();
  for (std::size_t place = hash_ >> (64 - kPlaceBits);; ++place) {
    place %= kPlaces;
    const std::int32_t entry = places_[place];
    if (entry < 0) return place;
    const int* const known = known_counts_.data() + static_cast<std::size_t>(entry) * flows;
    if (std::equal(counts_.begin(), counts_.end(), known)) return place;
  }
}

void FairShares::forget() {
  places_.assign(kPlaces, -1);
  known_counts_.clear();
  known_rates_.clear();
  known_ = 0;
}

std::span<const double> FairShares::compute() {
  if (flows() > kMostFlows) {
    share();
    return rates_;
  }
  if (known_ == kMostKnown) forget();
  std::int32_t& entry = places_[place_of_counts()];
  if (entry < 0) {
    share();
    entry = known_++;
    known_counts_.insert(known_counts_.end(), counts_.begin(), counts_.end());
    known_rates_.insert(known_rates_.end(), rates_.begin(), rates_.end());
  }
  return std::span(known_rates_)
      .subspan(static_cast<std::size_t>(entry) * rates_.size(), rates_.size());
}

void FairShares::share_card(std::int32_t index) {
  Card& card = cards_[static_cast<std::size_t>(index)];
  card.touched = false;
  shares_[static_cast<std::size_t>(index)] =
      card.waiting == 0 ? kNoTransfer : card.left / card.waiting;
}

void FairShares::settle(std::int32_t flow, double rate) {
  settled_in_[static_cast<std::size_t>(flow)] = round_;
  rates_[static_cast<std::size_t>(flow)] = rate;
  --open_;
}

void FairShares::take(std::int32_t index, int count, double rate) {
  Card& card = cards_[static_cast<std::size_t>(index)];
  card.left = std::max(card.left - count * rate, 0.0);
  card.waiting -= count;
  if (!std::exchange(card.touched, true)) touched_.push_back(index);
}

void FairShares::share() {
  ++round_;
  open_ = active_;
  const auto cards = static_cast<std::int32_t>(cards_.size());
  for (std::int32_t c = 0; c < cards; ++c) {
    Card& card = cards_[static_cast<std::size_t>(c)];
    card.left = card.capacity;
    card.waiting = card.transfers;
    share_card(c);
  }
  const auto limit_of = [&](int flow) { return flows_[static_cast<std::size_t>(flow)].limit; };
  auto slowest_link = by_limit_.begin();
  while (open_ > 0) {
    // The most that a flow can have: by an even share of a card, or by its link.
    double least = std::ranges::min(shares_);
    while (slowest_link != by_limit_.end() && limit_of(*slowest_link) <= least &&
           !is_open(*slowest_link)) {
      ++slowest_link;
    }
    if (slowest_link != by_limit_.end()) least = std::min(least, limit_of(*slowest_link));
    // Those that are worst off get it, and leave the rest to the others. A share computed from
    // what was left over after rounding counts as equal.
    const double worst_off = least * (1 + 1e-12 + tolerance_);
    for (auto f = slowest_link; f != by_limit_.end() && limit_of(*f) <= worst_off; ++f) {
      if (!is_open(*f)) continue;
      const Flow& flow = flows_[static_cast<std::size_t>(*f)];
      const int count = counts_[static_cast<std::size_t>(*f)];
      settle(*f, least);
      take(flow.send, count, least);
      take(flow.receive, count, least);
    }
    const double* const shares = shares_.data();
    for (std::int32_t c = 0; c < cards; ++c) {
      if (shares[c] > worst_off) continue;
      // The rest of it stays unused.
      Card& card = cards_[static_cast<std::size_t>(c)];
      if (card.waiting == 0) continue;
      for (const Passing& passing : card.flows) {
        if (!is_open(passing.flow)) continue;
        settle(passing.flow, least);
        take(passing.other, counts_[static_cast<std::size_t>(passing.flow)], least);
      }
      card.waiting = 0;
      if (!std::exchange(card.touched, true)) touched_.push_back(c);
    }
    for (const std::int32_t c : touched_) share_card(c);
    touched_.clear();
  }
}

}  // namespace atl
