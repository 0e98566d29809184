// Halo rows on machines with islands of fast links as an objective of descent: a row between
// islands counts as several inside.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "partition/halo_rows.hpp"

namespace atl {

class IslandRows {
 public:
  // A row between islands counts so many times. On arxiv in 8 parts 3 leaves 2 % more of these rows
  // than 30 does, and 30 adds 2 % to those inside.
  static constexpr std::int64_t kBetween = 10;

  // directions, with_itself, and part_of outlive this; islands: their numbers of parts.
  IslandRows(std::span<const Nets> directions, std::span<std::int32_t> part_of,
             std::span<const int> islands)
      : directions_(directions), part_of_(part_of) {
    for (std::size_t i = 0; i < islands.size(); ++i) {
      island_of_.insert(island_of_.end(), islands[i], static_cast<int>(i));
    }
    for (const Nets& nets : directions) counts_.emplace_back(nets, part_of, parts());
  }

  std::int64_t cost() const {  // counted anew
    std::int64_t sum = 0;
    for (const PinCounts& counts : counts_) {
      for (std::int64_t net = 0; net < counts.nets(); ++net) {
        const int owner = part_of_[net];
        counts.for_each(net, [&](int part) { sum += weight(owner, part); });
      }
    }
    return sum;
  }
  // Rows inside islands were counted before: what is left lies between them.
  bool may_gain(std::int32_t node) const {
    bool crosses = false;
    for (const PinCounts& counts : counts_) {
      counts.for_each(node,
                      [&](int part) { crosses |= island_of_[part] != island_of_[part_of_[node]]; });
    }
    return crosses;
  }
  Proposal best(std::int32_t node, const PartLoads& loads, bool any) const {
    static thread_local std::vector<std::int64_t> gains;
    static thread_local std::vector<char> near;
    gains.assign(island_of_.size(), 0);
    near.assign(island_of_.size(), any ? 1 : 0);
    for (std::size_t d = 0; d < directions_.size(); ++d) {
      counts_[d].for_each(node, [&](int part) { near[part] = 1; });
      add_as_reader(d, node, gains);
      add_as_owner(d, node, gains);
    }
    Proposal best;
    best.node = node;
    for (int part = 0; part < parts(); ++part) {
      if (part == part_of_[node] || near[part] == 0 || !loads.fits(node, part)) continue;
      const bool worse =
          gains[part] < best.gain || (gains[part] == best.gain && best.to >= 0 &&
                                      loads.fullness(part) >= loads.fullness(best.to));
      if (best.to >= 0 && worse) continue;
      best.gain = gains[part];
      best.to = part;
    }
    return best;
  }
  void move(std::int32_t node, int to) {
    for (std::size_t d = 0; d < directions_.size(); ++d) {
      directions_[d].for_each_net(node, [&](std::int32_t net) {
        counts_[d].change(net, part_of_[node], node, -1);
        counts_[d].change(net, to, node, 1);
      });
    }
    part_of_[node] = to;
  }

 private:
  int parts() const { return static_cast<int>(island_of_.size()); }
  // Of a row of one part that another reads.
  std::int64_t weight(int owner, int part) const {
    if (owner == part) return 0;
    return island_of_[owner] == island_of_[part] ? 1 : kBetween;
  }
  // How many of something there are in each part, and in its island.
  struct Numbers {
    std::vector<std::int64_t> of_part;
    std::vector<std::int64_t> of_island;
    std::int64_t all = 0;

    void clear(std::size_t parts) {
      of_part.assign(parts, 0);
      of_island.assign(parts, 0);  // no more islands than parts
      all = 0;
    }
    void add(int part, int island) {
      ++of_part[part];
      ++of_island[island];
      ++all;
    }
  };
  // Rows between a part and all these.
  std::int64_t weight(const Numbers& numbers, int part) const {
    const std::int64_t inside = numbers.of_island[island_of_[part]];
    return kBetween * (numbers.all - inside) + inside - numbers.of_part[part];
  }
  // What others' rows gain if the node reads them from each part instead.
  void add_as_reader(std::size_t d, std::int32_t node, std::vector<std::int64_t>& gains) const {
    static thread_local Numbers owners;
    owners.clear(island_of_.size());
    const int own = part_of_[node];
    std::int64_t saved = 0;
    directions_[d].for_each_net(node, [&](std::int32_t net) {
      if (net == node) return;
      const int owner = part_of_[net];
      owners.add(owner, island_of_[owner]);
      if (counts_[d].count(net, own) == 1) saved += weight(owner, own);
      counts_[d].for_each(net, [&](int part) { gains[part] += weight(owner, part); });
    });
    for (int part = 0; part < parts(); ++part) gains[part] += saved - weight(owners, part);
  }
  // What the node's own row gains if each part owns it instead.
  void add_as_owner(std::size_t d, std::int32_t node, std::vector<std::int64_t>& gains) const {
    static thread_local Numbers readers;
    readers.clear(island_of_.size());
    const int own = part_of_[node];
    counts_[d].for_each(node, [&](int part) {
      if (part != own || counts_[d].count(node, own) > 1) readers.add(part, island_of_[part]);
    });
    const std::int64_t now = weight(readers, own);  // what stays at home weighs nothing
    for (int part = 0; part < parts(); ++part) gains[part] += now - weight(readers, part);
  }

  std::span<const Nets> directions_;
  std::span<std::int32_t> part_of_;
  std::vector<int> island_of_;  // each part's
  std::vector<PinCounts> counts_;
};

}  // namespace atl
