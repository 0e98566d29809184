// Communities by label propagation with a bound on their size (Meyerhenke, Sanders and Schulz,
// "Partitioning complex networks via size-constrained clustering", SEA 2014), in rounds that do not
// depend on threads: a block of nodes looks for its communities at once, then its nodes join one
// after another.
#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "base/mixed_bits.hpp"
#include "base/parallel.hpp"
#include "partition/graph_level.hpp"
#include "partition/tally.hpp"

namespace atl {

namespace {

constexpr std::int64_t kManyNodes = 4096;  // fewer in a block are not worth waking threads for
constexpr std::int64_t kBlocks = 64;       // of a round: the more, the newer is what nodes look at

class CommunityFinder {
 public:
  CommunityFinder(const GraphLevel& graph, std::span<const std::int64_t> bounds,
                  std::span<const std::int32_t> part_of, std::uint64_t seed)
      : graph_(graph),
        bounds_(bounds),
        part_of_(part_of),
        seed_(seed),
        community_(static_cast<std::size_t>(graph.nodes())),
        weights_(graph.node_weights.begin(), graph.node_weights.end()),
        sizes_(community_.size(), 1),
        wish_(community_.size(), -1) {
    std::iota(community_.begin(), community_.end(), 0);
  }

  Communities run(int rounds) {
    const std::vector<std::int32_t> order = few_edges_first();
    for (int round = 0; round < rounds; ++round) {
      if (propagate(order) * 200 < graph_.nodes()) break;  // few still move
    }
    pair_lone_nodes(order);
    return renumbered();
  }

 private:
  std::uint64_t key(std::int32_t v) const {
    return mixed_bits(seed_, static_cast<std::uint64_t>(v));
  }
  std::vector<std::int32_t> few_edges_first() const {
    std::vector<std::pair<std::uint64_t, std::int32_t>> keys(community_.size());
    parallel_for(graph_.nodes(), 4096, [&](std::int64_t v) {
      const auto width =
          static_cast<std::uint64_t>(std::bit_width(static_cast<std::uint64_t>(graph_.degree(v))));
      keys[v] = {width << 57U | key(static_cast<std::int32_t>(v)) >> 7U,
                 static_cast<std::int32_t>(v)};
    });
    std::sort(keys.begin(), keys.end());
    std::vector<std::int32_t> order;
    order.reserve(keys.size());
    for (const auto& [k, v] : keys) order.push_back(v);
    return order;
  }
  bool same_part(std::int32_t u, std::int32_t v) const {
    return part_of_.empty() || part_of_[u] == part_of_[v];
  }
  bool fits(std::int32_t v, std::int32_t community) const {
    for (std::int64_t c = 0; c < graph_.constraints; ++c) {
      if (weights_[community * graph_.constraints + c] + weight(v, c) > bounds_[c]) return false;
    }
    return true;
  }
  std::int64_t weight(std::int32_t v, std::int64_t c) const {
    return graph_.node_weights[v * graph_.constraints + c];
  }
  // The community with room that v has most edges to, its own if that is as good; wish: the one
  // it has most edges to, with room or without.
  std::int32_t choose(std::int32_t v, Tally& tally, std::int32_t& wish) const {
    const std::int32_t own = community_[v];
    tally.start(graph_.degree(v));
    graph_.for_each_neighbour(v, [&](std::int32_t u, std::int64_t weight) {
      if (same_part(u, v)) tally.add(community_[u], weight);
    });
    std::int32_t best = own;
    std::int64_t best_weight = 0;
    std::uint64_t best_key = 0;
    std::int64_t wish_weight = 0;
    tally.for_each([&](std::int32_t community, std::int64_t sum) {
      if (sum > wish_weight || (sum == wish_weight && community < wish)) {
        wish_weight = sum;
        wish = community;
      }
      if (sum < best_weight) return;
      const std::uint64_t tie = community == own ? ~std::uint64_t{0} : key(community ^ v);
      if (sum == best_weight && tie <= best_key) return;
      if (community != own && !fits(v, community)) return;
      best = community;
      best_weight = sum;
      best_key = tie;
    });
    return best;
  }
  void join(std::int32_t v, std::int32_t to) {
    const std::int32_t from = community_[v];
    for (std::int64_t c = 0; c < graph_.constraints; ++c) {
      weights_[from * graph_.constraints + c] -= weight(v, c);
      weights_[to * graph_.constraints + c] += weight(v, c);
    }
    --sizes_[from];
    ++sizes_[to];
    community_[v] = to;
  }
  std::int64_t propagate(const std::vector<std::int32_t>& order) {
    const auto nodes = static_cast<std::int64_t>(order.size());
    const std::int64_t block = std::max<std::int64_t>(1, (nodes + kBlocks - 1) / kBlocks);
    std::vector<std::int32_t> chosen(static_cast<std::size_t>(block));
    std::vector<Tally> tallies(static_cast<std::size_t>(parallel_threads()));
    const std::int64_t length = block > kManyNodes ? 64 : block;
    std::int64_t moved = 0;
    for (std::int64_t begin = 0; begin < nodes; begin += block) {
      const std::int64_t end = std::min(nodes, begin + block);
      parallel_pieces(end - begin, length, [&](std::int64_t from, std::int64_t to, int slot) {
        Tally& tally = tallies[static_cast<std::size_t>(slot)];
        for (std::int64_t k = from; k < to; ++k) {
          const std::int32_t v = order[begin + k];
          chosen[k] = choose(v, tally, wish_[v]);
        }
      });
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int32_t v = order[i];
        const std::int32_t to = chosen[i - begin];
        // Who was wished for may have left, or others may have filled the room.
        if (to == community_[v] || sizes_[to] == 0 || !fits(v, to)) continue;
        join(v, to);
        ++moved;
      }
    }
    return moved;
  }
  bool has_neighbours(std::int32_t v) const {
    bool found = false;
    graph_.for_each_neighbour(v, [&](std::int32_t, std::int64_t) { found = true; });
    return found;
  }
  // Nodes that found no room and are alone join others that wish for the same community: what
  // hangs on a hub stays together. So do nodes without edges, among them whole components that have
  // become one node: nothing is lost, and a graph of many such nodes would not shrink.
  void pair_lone_nodes(const std::vector<std::int32_t>& order) {
    std::vector<std::int32_t> lone;
    for (const std::int32_t v : order) {
      const bool is_alone = sizes_[community_[v]] == 1 && community_[v] == v;
      if (is_alone && (wish_[v] >= 0 || !has_neighbours(v))) lone.push_back(v);
    }
    const auto group = [&](std::int32_t v) {
      return std::pair(wish_[v], part_of_.empty() ? 0 : part_of_[v]);
    };
    std::stable_sort(lone.begin(), lone.end(),
                     [&](std::int32_t a, std::int32_t b) { return group(a) < group(b); });
    for (std::size_t i = 1; i < lone.size(); ++i) {
      if (wish_[lone[i]] != wish_[lone[i - 1]] || !same_part(lone[i], lone[i - 1])) continue;
      const std::int32_t to = community_[lone[i - 1]];
      if (fits(lone[i], to)) join(lone[i], to);
    }
  }
  Communities renumbered() {
    Communities result;
    std::vector<std::int32_t> number(community_.size(), -1);
    for (std::int32_t& community : community_) {
      std::int32_t& n = number[community];
      if (n < 0) n = static_cast<std::int32_t>(result.count++);
      community = n;
    }
    result.of = std::move(community_);
    return result;
  }

  const GraphLevel& graph_;
  std::span<const std::int64_t> bounds_;
  std::span<const std::int32_t> part_of_;
  std::uint64_t seed_;
  std::vector<std::int32_t> community_;  // named by the node that began it
  std::vector<std::int64_t> weights_;
  std::vector<std::int32_t> sizes_;
  std::vector<std::int32_t> wish_;
};

}  // namespace

Communities find_communities(const GraphLevel& graph, std::span<const std::int64_t> bounds,
                             std::span<const std::int32_t> part_of, int rounds,
                             std::uint64_t seed) {
  return CommunityFinder(graph, bounds, part_of, seed).run(rounds);
}

}  // namespace atl
