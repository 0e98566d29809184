// Halo rows as an objective of descent where the price of a row depends on who sends it to whom.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "partition/halo_rows.hpp"

namespace atl {

// Prices:
//   std::int64_t of(direction, owner, part): of a row of `owner` that another part receives.
//   bool matters(owner, part): whether nodes look for a better part because of such a row.
//   void count(direction, owner, part, by): so many of them have come (by 1) or gone (by -1).
// Prices may follow these counts; they are read while nothing changes, by several threads.
template <typename Prices>
class PricedRows {
 public:
  // directions, with_itself, part_of and prices outlive this; prices know of no rows yet.
  PricedRows(std::span<const Nets> directions, std::span<std::int32_t> part_of, int parts,
             Prices& prices)
      : directions_(directions), part_of_(part_of), parts_(parts), prices_(prices) {
    for (std::size_t d = 0; d < directions.size(); ++d) {
      const PinCounts& counts = counts_.emplace_back(directions[d], part_of, parts);
      for (std::int64_t net = 0; net < counts.nets(); ++net) count_rows(d, net, 1);
    }
  }

  std::int64_t cost() const {  // counted anew
    std::int64_t sum = 0;
    for (std::size_t d = 0; d < counts_.size(); ++d) {
      for (std::int64_t net = 0; net < counts_[d].nets(); ++net) {
        counts_[d].for_each(net, [&](int part) { sum += price(d, part_of_[net], part); });
      }
    }
    return sum;
  }
  bool may_gain(std::int32_t node) const {
    const int own = part_of_[node];
    bool found = false;
    for (const PinCounts& counts : counts_) {
      counts.for_each(node, [&](int part) { found |= part != own && prices_.matters(own, part); });
    }
    return found;
  }
  Proposal best(std::int32_t node, const PartLoads& loads, bool any) const {
    static thread_local std::vector<std::int64_t> gains;
    static thread_local std::vector<char> near;
    gains.assign(static_cast<std::size_t>(parts_), 0);
    near.assign(static_cast<std::size_t>(parts_), any ? 1 : 0);
    for (std::size_t d = 0; d < directions_.size(); ++d) {
      counts_[d].for_each(node, [&](int part) { near[part] = 1; });
      add_as_reader(d, node, gains);
      add_as_owner(d, node, gains);
    }
    Proposal best;
    best.node = node;
    for (int part = 0; part < parts_; ++part) {
      if (part == part_of_[node] || near[part] == 0 || !loads.fits(node, part)) continue;
      best.offer(part, gains[part], loads);
    }
    return best;
  }
  void move(std::int32_t node, int to) {
    const int from = part_of_[node];
    for (std::size_t d = 0; d < directions_.size(); ++d) {
      count_rows(d, node, -1);
      directions_[d].for_each_net(node, [&](std::int32_t net) {
        const auto left = counts_[d].change(net, from, node, -1);
        const auto there = counts_[d].change(net, to, node, 1);
        if (net == node) return;
        const int owner = part_of_[net];
        if (left.count == 0 && owner != from) prices_.count(d, owner, from, -1);
        if (there.count == 1 && owner != to) prices_.count(d, owner, to, 1);
      });
    }
    part_of_[node] = to;
    for (std::size_t d = 0; d < directions_.size(); ++d) count_rows(d, node, 1);
  }

 private:
  std::int64_t price(std::size_t d, int owner, int part) const {
    return owner == part ? 0 : prices_.of(d, owner, part);
  }
  void count_rows(std::size_t d, std::int64_t net, int by) {
    const int owner = part_of_[net];
    counts_[d].for_each(net, [&](int part) {
      if (part != owner) prices_.count(d, owner, part, by);
    });
  }
  // Gains of others' rows if the node reads them from each part instead.
  void add_as_reader(std::size_t d, std::int32_t node, std::vector<std::int64_t>& gains) const {
    static thread_local std::vector<std::int64_t> rows;  // that the node reads, of each part
    rows.assign(gains.size(), 0);
    const int own = part_of_[node];
    std::int64_t saved = 0;
    directions_[d].for_each_net(node, [&](std::int32_t net) {
      if (net == node) return;
      const int owner = part_of_[net];
      ++rows[owner];
      counts_[d].for_each_count(net, [&](int part, std::int32_t pins) {
        const std::int64_t cost = price(d, owner, part);
        gains[part] += cost;
        saved += part == own && pins == 1 ? cost : 0;
      });
    });
    for (int owner = 0; owner < parts_; ++owner) {
      if (rows[owner] == 0) continue;
      for (int part = 0; part < parts_; ++part) gains[part] -= rows[owner] * price(d, owner, part);
    }
    for (std::int64_t& gain : gains) gain += saved;
  }
  // Gains of the node's own row if each part owns it instead.
  void add_as_owner(std::size_t d, std::int32_t node, std::vector<std::int64_t>& gains) const {
    const int own = part_of_[node];
    counts_[d].for_each_count(node, [&](int reader, std::int32_t pins) {
      if (reader == own && pins == 1) return;  // the node itself
      const std::int64_t now = price(d, own, reader);
      for (int part = 0; part < parts_; ++part) gains[part] += now - price(d, part, reader);
    });
  }

  std::span<const Nets> directions_;
  std::span<std::int32_t> part_of_;
  int parts_;
  Prices& prices_;
  std::vector<PinCounts> counts_;
};

}  // namespace atl
