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
  void count(int flow, int change) { counts_[static_cast<std::size_t>(flow)] += change; }
  void count_none();
  // Rates in bytes/s of each single transfer of each flow; 0 where none is under way. Valid until
  // the next call.
  std::span<const double> compute();

 private:
  struct Card {
    double capacity = 0;
    double left = 0;
    double share = 0;        // of each transfer without a rate yet
    int waiting = 0;         // transfers without a rate yet
    std::vector<int> flows;  // that pass it
  };

  // The place of counts_, or the free one where they belong.
  std::size_t place_of_counts() const;
  void forget();
  // Rates of counts_, into rates_.
  void share();

  const Topology& topology_;
  double tolerance_;
  std::vector<Card> cards_;  // send of each host, then receive of each host
  std::vector<Flow> flows_;
  std::vector<int> counts_;    // by flow: how many are under way
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
