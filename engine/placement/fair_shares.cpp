#include "engine/placement/fair_shares.hpp"

#include <algorithm>
#include <limits>

#include "base/checksum.hpp"

namespace atl {

namespace {

constexpr double kOpen = -1;
// With more flows the same counts hardly ever come again.
constexpr int kMostFlows = 64;
constexpr std::size_t kPlaces = 1024;     // a power of two
constexpr std::int32_t kMostKnown = 512;  // entries, so that searches in the table are short

}  // namespace

FairShares::FairShares(const Topology& topology, double tolerance)
    : topology_(topology), tolerance_(tolerance) {
  for (const Host& host : topology.hosts) cards_.push_back({host.send_bytes_per_s, 0, 0, 0, {}});
  for (const Host& host : topology.hosts) {
    cards_.push_back({host.receive_bytes_per_s, 0, 0, 0, {}});
  }
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
  counts_.push_back(count);
  forget();
  rates_.push_back(0);
  for (const int card : {flow.send, flow.receive}) {
    if (card >= 0) cards_[static_cast<std::size_t>(card)].flows.push_back(index);
  }
  const auto place = std::upper_bound(
      by_limit_.begin(), by_limit_.end(), flow.limit, [&](double limit, int other) {
        return limit < flows_[static_cast<std::size_t>(other)].limit;
      });
  by_limit_.insert(place, index);
  return index;
}

void FairShares::count_none() { std::ranges::fill(counts_, 0); }

std::size_t FairShares::place_of_counts() const {
  const std::size_t flows = counts_.size();
  for (std::size_t place = checksum(std::as_bytes(std::span(counts_)));; ++place) {
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

void FairShares::share() {
  for (Card& card : cards_) {
    card.left = card.capacity;
    card.waiting = 0;
  }
  int open = 0;  // flows without a rate yet
  for (std::size_t f = 0; f < flows_.size(); ++f) {
    const Flow& flow = flows_[f];
    const int count = counts_[f];
    if (count == 0 || flow.send < 0) {
      rates_[f] = count == 0 ? 0 : flow.limit;
      continue;
    }
    rates_[f] = kOpen;
    ++open;
    cards_[static_cast<std::size_t>(flow.send)].waiting += count;
    cards_[static_cast<std::size_t>(flow.receive)].waiting += count;
  }
  const auto is_open = [&](int flow) { return rates_[static_cast<std::size_t>(flow)] == kOpen; };
  const auto settle = [&](int f, double rate) {
    if (!is_open(f)) return;
    const Flow& flow = flows_[static_cast<std::size_t>(f)];
    const int count = counts_[static_cast<std::size_t>(f)];
    rates_[static_cast<std::size_t>(f)] = rate;
    --open;
    for (const int index : {flow.send, flow.receive}) {
      Card& card = cards_[static_cast<std::size_t>(index)];
      card.left = std::max(card.left - count * rate, 0.0);
      card.waiting -= count;
    }
  };
  const auto limit_of = [&](int flow) { return flows_[static_cast<std::size_t>(flow)].limit; };
  auto slowest_link = by_limit_.begin();
  while (open > 0) {
    // The most that a flow can have: by its link, or by an even share of a card.
    while (slowest_link != by_limit_.end() && !is_open(*slowest_link)) ++slowest_link;
    double least = limit_of(*slowest_link);
    for (Card& card : cards_) {
      if (card.waiting == 0) continue;
      card.share = card.left / card.waiting;
      least = std::min(least, card.share);
    }
    // Those that are worst off get it, and leave the rest to the others. A share computed from
    // what was left over after rounding counts as equal.
    const double worst_off = least * (1 + 1e-12 + tolerance_);
    for (auto f = slowest_link; f != by_limit_.end() && limit_of(*f) <= worst_off; ++f) {
      settle(*f, least);
    }
    for (Card& card : cards_) {
      if (card.waiting == 0 || card.share > worst_off) continue;
      for (const int f : card.flows) settle(f, least);
    }
  }
}

}  // namespace atl
