// Halo rows as an objective of descent. A row is a net: its pins are the node itself and all that
// read it, and it travels once for each part but one that has pins (the connectivity of a
// hypergraph, lambda - 1; Catalyurek and Aykanat 1999). Pins may be communities of nodes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/csr.hpp"
#include "partition/descent.hpp"

namespace atl {

// The nets of one direction.
struct Nets {
  CsrView pins;                             // of each net
  CsrView nets_of;                          // of each pin; the transpose of `pins`
  bool with_itself;                         // net n is node n's and has it as a pin, listed or not
  std::span<const std::int32_t> weights{};  // rows that each stands for; empty: 1 each

  std::int32_t weight(std::int64_t net) const { return weights.empty() ? 1 : weights[net]; }
  template <typename F>
  void for_each_net(std::int32_t pin, const F& f) const {
    for (const std::int32_t net : nets_of.row(pin)) {
      if (!with_itself || net != pin) f(net);
    }
    if (with_itself) f(pin);
  }
  template <typename F>
  void for_each_pin(std::int32_t net, const F& f) const {
    for (const std::int32_t pin : pins.row(net)) {
      if (!with_itself || pin != net) f(pin);
    }
    if (with_itself) f(net);
  }
};

// For every net how many of its pins lie in each part. It has room for as many parts as pins.
class PinCounts {
 public:
  PinCounts(const Nets& nets, std::span<const std::int32_t> part_of, int parts);

  std::int32_t count(std::int64_t net, int part) const {
    const std::int64_t i = slot(net, part);
    return i < 0 || part_[i] != part ? 0 : count_[i];
  }
  // How many pins of a net are in a part, and the exclusive or of their numbers: with one pin the
  // pin itself.
  struct Pins {
    std::int32_t count;
    std::int32_t combined;
  };
  // A pin comes (by 1) or goes (by -1); what is there then.
  Pins change(std::int64_t net, int part, std::int32_t pin, int by) {
    const std::int64_t i = slot(net, part);
    part_[i] = static_cast<std::uint16_t>(part);
    return {count_[i] += by, combined_[i] ^= pin};
  }
  // f(part) for each part with pins.
  template <typename F>
  void for_each(std::int64_t net, const F& f) const {
    for_each_count(net, [&](int part, std::int32_t) { f(part); });
  }
  // f(part, count) for each of them.
  template <typename F>
  void for_each_count(std::int64_t net, const F& f) const {
    for (std::int64_t i = first_[net]; i < first_[net + 1]; ++i) {
      if (count_[i] > 0) f(static_cast<int>(part_[i]), count_[i]);
    }
  }
  std::int64_t nets() const { return static_cast<std::int64_t>(first_.size()) - 1; }

 private:
  std::int64_t slot(std::int64_t net, int part) const;

  int parts_;
  std::vector<std::int64_t> first_;  // slots of each net
  std::vector<std::uint16_t> part_;
  std::vector<std::int32_t> count_;
  std::vector<std::int32_t> combined_;
};

class HaloRows {
 public:
  // directions and part_of outlive this.
  HaloRows(std::span<const Nets> directions, std::span<std::int32_t> part_of, int parts);

  std::int64_t rows() const;  // counted anew
  // Per part, how many rows of the node's nets have pins there: what it saves to lie beside them.
  std::span<const std::int32_t> near(std::int32_t node) const {
    return std::span(near_).subspan(static_cast<std::int64_t>(node) * parts_, parts_);
  }
  bool may_gain(std::int32_t node) const;
  Proposal best(std::int32_t node, const PartLoads& loads, bool any) const;
  void move(std::int32_t node, int to);

 private:
  std::int32_t& near(std::int32_t node, int part) {
    return near_[static_cast<std::int64_t>(node) * parts_ + part];
  }

  std::span<const Nets> directions_;
  std::span<std::int32_t> part_of_;
  int parts_;
  std::vector<PinCounts> counts_;
  // Per node, [nodes, parts] and [nodes]: rows of its nets with pins in a part, and of those of
  // which it is the only pin in its part. A move to part b gains alone + near(b) - near(own).
  std::vector<std::int32_t> near_;
  std::vector<std::int32_t> alone_;
};

}  // namespace atl
