// Shares of links and network cards for transfers under way at the same time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/placement/topology.hpp"

namespace atl {

// Max-min fair rates (Bertsekas & Gallager, Data Networks, section 6.5.2): every flow gets as much
// as the link it travels, its sender's host and its receiver's host leave it, and none could get
// more without another that has no more getting less.
class FairShares {
 public:
  // Transfers that are alike. `send` and `receive` are -1 inside a host, where no card is passed.
  struct Flow {
    double limit = 0;  // of the link, bytes/s
    int send = -1;     // index into the resources: the card it leaves by
    int receive = -1;  // the card it arrives by
  };

  // Flows whose rates would differ by no more than `tolerance`, as a share of them, may get the
  // same, the least of them.
  explicit FairShares(const Topology& topology, double tolerance = 0);

  Flow flow(int from, int to) const;
  // Adds one to those that share, of which `count` are under way; returns its number.
  int add(const Flow& flow, int count = 1);
  int flows() const { return static_cast<int>(flows_.size()); }
  // Notes that `change` more transfers of that flow are under way.
  void count(int flow, int change);
  void count_none();
  // Rates in bytes/s of each single transfer of each flow; 0 where none is under way. Valid until
  // the next call.
  std::span<const double> compute();

 private:
  // A flow that passes a card, and the other card that it passes.
  struct Passing {
    std::int32_t flow;
    std::int32_t other;
  };
  // A cache line each.
  struct alignas(64) Card {
    double capacity = 0;
    double left = 0;
    int transfers = 0;     // under way
    int waiting = 0;       // of these, without a rate yet
    bool touched = false;  // a transfer has got one since its share was computed
    std::vector<Passing> flows = {};
  };

  // The place of counts_, or the free one where they belong.
  std::size_t place_of_counts() const;
  void forget();
  // Rates of counts_, into rates_.
  void share();
  void share_card(std::int32_t card);
  bool is_open(std::int32_t flow) const {
    return settled_in_[static_cast<std::size_t>(flow)] < round_;
  }
  // Gives the transfers of an open flow their rate.
  void settle(std::int32_t flow, double rate);
  // `count` transfers of this rate leave a card to those without one.
  void take(std::int32_t card, int count, double rate);

  const Topology& topology_;
  double tolerance_;
  std::vector<Card> cards_;     // send of each host, then receive of each host
  std::vector<double> shares_;  // by card: of each transfer that waits; infinite where none does
  std::vector<std::int32_t> touched_;  // cards
  std::vector<Flow> flows_;
  std::vector<int> counts_;  // by flow: how many are under way
  // The sum of counts_, each times a number of its flow.
  std::uint64_t hash_ = 0;
  std::vector<std::uint64_t> hash_factors_;  // by flow
  // By flow: the last call of share() that gave it a rate. Those that need none have kNeedsNone.
  std::vector<std::int64_t> settled_in_;
  std::int64_t round_ = 0;     // the calls of share()
  int active_ = 0;             // flows that need rates
  int open_ = 0;               // of these, without one yet
  std::vector<int> by_limit_;  // flows, slowest link first
  std::vector<double> rates_;  // by flow; kOpen: none yet
  // Rates of counts that were there before: an epoch comes to the same ones again and again, as do
  // others that differ little from it. An open hash table: places_ has the numbers of entries, or
  // -1, and an entry lies in known_counts_ and known_rates_ by its number.
  std::vector<std::int32_t> places_;
  std::vector<int> known_counts_;
  std::vector<double> known_rates_;
  std::int32_t known_ = 0;  // entries
};

}  // namespace atl
