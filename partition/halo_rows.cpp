#include "partition/halo_rows.hpp"

#include <atomic>
#include <bit>
#include <utility>

#include "base/parallel.hpp"

namespace atl {

PinCounts::PinCounts(const Nets& nets, std::span<const std::int32_t> part_of, int parts)
    : parts_(parts), first_(static_cast<std::size_t>(nets.pins.rows()) + 1, 0) {
  const std::int64_t count = nets.pins.rows();
  for (std::int64_t n = 0; n < count; ++n) {
    const auto size =
        static_cast<std::int64_t>(nets.pins.row(n).size()) + (nets.with_itself ? 1 : 0);
    first_[n + 1] = first_[n] + std::min<std::int64_t>(size, parts);
  }
  part_.resize(first_.back());
  count_.assign(first_.back(), 0);
  combined_.assign(first_.back(), 0);
  parallel_for(count, 1024, [&](std::int64_t n) {
    const auto net = static_cast<std::int32_t>(n);
    if (first_[n + 1] - first_[n] == parts) {
      for (int p = 0; p < parts; ++p) part_[first_[n] + p] = static_cast<std::uint16_t>(p);
    }
    nets.for_each_pin(net, [&](std::int32_t pin) { change(net, part_of[pin], pin, 1); });
  });
}

// Where `part` is counted; else a free place, of which there is one for each pin.
std::int64_t PinCounts::slot(std::int64_t net, int part) const {
  const std::int64_t begin = first_[net];
  const std::int64_t end = first_[net + 1];
  if (end - begin == parts_) return begin + part;
  std::int64_t free = -1;
  for (std::int64_t i = begin; i < end; ++i) {
    if (count_[i] == 0) {
      free = i;
    } else if (part_[i] == part) {
      return i;
    }
  }
  return free;
}

namespace {

// A net's parts with pins, and those with one. Counts lie too far apart to be read for every pin of
// every net.
struct PartBits {
  std::uint64_t present = 0;
  std::uint64_t single = 0;
};
constexpr int kMostBits = 64;

std::vector<PartBits> part_bits(const PinCounts& counts) {
  std::vector<PartBits> bits(static_cast<std::size_t>(counts.nets()));
  parallel_for(counts.nets(), 4096, [&](std::int64_t n) {
    counts.for_each_count(n, [&](int part, std::int32_t pins) {
      const std::uint64_t bit = std::uint64_t{1} << static_cast<unsigned>(part);
      bits[n].present |= bit;
      if (pins == 1) bits[n].single |= bit;
    });
  });
  return bits;
}

}  // namespace

HaloRows::HaloRows(std::span<const Nets> directions, std::span<std::int32_t> part_of, int parts)
    : directions_(directions),
      part_of_(part_of),
      parts_(parts),
      near_(part_of.size() * static_cast<std::size_t>(parts), 0),
      alone_(part_of.size(), 0) {
  for (const Nets& nets : directions) {
    const PinCounts& counts = counts_.emplace_back(nets, part_of, parts);
    const auto nodes = static_cast<std::int64_t>(part_of.size());
    if (parts <= kMostBits) {
      const std::vector<PartBits> bits = part_bits(counts);
      parallel_for(nodes, 1024, [&](std::int64_t v) {
        const auto node = static_cast<std::int32_t>(v);
        nets.for_each_net(node, [&](std::int32_t net) {
          const std::int32_t weight = nets.weight(net);
          for (std::uint64_t left = bits[net].present; left != 0; left &= left - 1) {
            near(node, std::countr_zero(left)) += weight;
          }
          if ((bits[net].single >> part_of[v] & 1U) != 0) alone_[v] += weight;
        });
      });
      continue;
    }
    parallel_for(nodes, 1024, [&](std::int64_t v) {
      const auto node = static_cast<std::int32_t>(v);
      nets.for_each_net(node, [&](std::int32_t net) {
        counts.for_each(net, [&](int part) { near(node, part) += nets.weight(net); });
        if (counts.count(net, part_of[v]) == 1) alone_[v] += nets.weight(net);
      });
    });
  }
}

std::int64_t HaloRows::rows() const {
  std::atomic<std::int64_t> sum = 0;
  for (std::size_t d = 0; d < counts_.size(); ++d) {
    const PinCounts& counts = counts_[d];
    parallel_pieces(counts.nets(), 4096, [&](std::int64_t begin, std::int64_t end, int) {
      std::int64_t own = 0;
      for (std::int64_t n = begin; n < end; ++n) {
        std::int64_t parts = 0;
        counts.for_each(n, [&](int) { ++parts; });
        own += (std::max<std::int64_t>(parts, 1) - 1) * directions_[d].weight(n);
      }
      sum += own;
    });
  }
  return sum;
}

bool HaloRows::may_gain(std::int32_t node) const {
  if (alone_[node] == 0) return false;
  const auto counts = near(node);
  for (int part = 0; part < parts_; ++part) {
    if (counts[part] > 0 && part != part_of_[node]) return true;
  }
  return false;
}

Proposal HaloRows::best(std::int32_t node, const PartLoads& loads, bool any) const {
  const int own = part_of_[node];
  const auto counts = near(node);
  Proposal best;
  best.node = node;
  std::int32_t most = any ? -1 : 0;
  for (int part = 0; part < parts_; ++part) {
    const std::int32_t nets = counts[part];
    if (part == own || nets < most || (nets == 0 && !any) || !loads.fits(node, part)) continue;
    if (nets == most && best.to >= 0 && loads.fullness(part) >= loads.fullness(best.to)) continue;
    most = nets;
    best.to = part;
  }
  if (best.to >= 0) best.gain = alone_[node] + most - counts[own];
  return best;
}

void HaloRows::move(std::int32_t node, int to) {
  const int from = part_of_[node];
  part_of_[node] = to;
  alone_[node] = 0;
  for (std::size_t d = 0; d < counts_.size(); ++d) {
    const Nets& nets = directions_[d];
    nets.for_each_net(node, [&](std::int32_t net) {
      const auto left = counts_[d].change(net, from, node, -1);
      const auto there = counts_[d].change(net, to, node, 1);
      const std::int32_t weight = nets.weight(net);
      // A duplicate leaves next.
      if (left.count == 1 && left.combined != node) alone_[left.combined] += weight;
      if (there.count == 1) alone_[node] += weight;
      if (there.count == 2) alone_[there.combined ^ node] -= weight;
      if (left.count > 0 && there.count > 1) return;
      const std::int32_t gone = left.count == 0 ? weight : 0;
      const std::int32_t come = there.count == 1 ? weight : 0;
      nets.for_each_pin(net, [&](std::int32_t pin) {
        std::int32_t* row = &near(pin, 0);
        row[from] -= gone;
        row[to] += come;
      });
    });
  }
}

}  // namespace atl
