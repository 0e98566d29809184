// The graph of communities, and the nets whose pins they are.
#include <algorithm>
#include <limits>
#include <utility>

#include "base/buckets.hpp"
#include "base/mixed_bits.hpp"
#include "base/parallel.hpp"
#include "partition/graph_level.hpp"
#include "partition/tally.hpp"

namespace atl {

namespace {

// For all rows to come, by the length of those so far: doubling would hold twice as much. `most`:
// entries of the finer graph, of which none becomes two; the first rows may be hubs, which say
// nothing of the others.
void make_room(ContractedGraph& graph, std::int64_t row, std::int64_t rows, std::size_t next,
               std::int64_t most) {
  const auto entries = static_cast<double>(graph.col_idx.size());
  const double mean = entries / static_cast<double>(std::max<std::int64_t>(1, row));
  const auto wanted =
      static_cast<std::size_t>(1.1 * (entries + mean * static_cast<double>(rows - row))) + next;
  const std::size_t room = std::min(wanted, static_cast<std::size_t>(most));
  graph.col_idx.reserve(room);
  graph.edge_weights.reserve(room);
}

std::uint64_t hash_of(std::span<const std::int32_t> row) {
  std::uint64_t hash = row.size();
  for (const std::int32_t x : row) hash = mixed_bits(hash, static_cast<std::uint64_t>(x));
  return hash;
}

// Finds a row among those that are there already, by its hash in an open-addressing table.
class DistinctRows {
 public:
  // The number of the row in `rows` that equals it, or the number that it will have as the next.
  std::int64_t find_or_add(std::uint64_t hash, std::span<const std::int32_t> row, const Csr& rows) {
    if (2 * (hashes_.size() + 1) > places_.size()) grow();
    std::size_t i = hash & (places_.size() - 1);
    for (; places_[i] >= 0; i = (i + 1) & (places_.size() - 1)) {
      if (hashes_[places_[i]] == hash && std::ranges::equal(rows.view().row(places_[i]), row)) {
        return places_[i];
      }
    }
    places_[i] = static_cast<std::int32_t>(hashes_.size());
    hashes_.push_back(hash);
    return places_[i];
  }

 private:
  void grow() {
    places_.assign(std::max<std::size_t>(1024, 2 * places_.size()), -1);
    for (std::size_t n = 0; n < hashes_.size(); ++n) {
      std::size_t i = hashes_[n] & (places_.size() - 1);
      while (places_[i] >= 0) i = (i + 1) & (places_.size() - 1);
      places_[i] = static_cast<std::int32_t>(n);
    }
  }

  std::vector<std::uint64_t> hashes_;
  std::vector<std::int32_t> places_;  // -1: free
};

}  // namespace

ContractedGraph contract(const GraphLevel& graph, const Communities& found) {
  const std::int64_t nodes = graph.nodes();
  const std::int64_t communities = found.count;
  const std::span<const std::int32_t> community_of = found.of;
  Buckets members;
  members.fill(communities, community_of);
  ContractedGraph result;
  result.constraints = graph.constraints;
  result.node_weights.assign(communities * graph.constraints, 0);
  for (std::int64_t v = 0; v < nodes; ++v) {
    for (std::int64_t c = 0; c < graph.constraints; ++c) {
      result.node_weights[community_of[v] * graph.constraints + c] +=
          graph.node_weights[v * graph.constraints + c];
    }
  }
  result.row_ptr.assign(communities + 1, 0);
  // Blocks of communities, so that what threads found is held twice for a block only.
  constexpr std::int64_t kBlock = 1 << 14;
  std::vector<std::vector<std::pair<std::int32_t, std::int32_t>>> rows(kBlock);
  std::vector<Tally> tallies(static_cast<std::size_t>(parallel_threads()));
  for (std::int64_t begin = 0; begin < communities; begin += kBlock) {
    const std::int64_t end = std::min(communities, begin + kBlock);
    parallel_pieces(end - begin, 64, [&](std::int64_t from, std::int64_t to, int slot) {
      Tally& tally = tallies[static_cast<std::size_t>(slot)];
      for (std::int64_t c = begin + from; c < begin + to; ++c) {
        std::int64_t edges = 0;
        for (const std::int32_t v : members.of(c)) edges += graph.degree(v);
        tally.start(std::min(edges, communities));
        for (const std::int32_t v : members.of(c)) {
          graph.for_each_neighbour(v, [&](std::int32_t u, std::int64_t weight) {
            if (community_of[u] != c) tally.add(community_of[u], weight);
          });
        }
        auto& row = rows[c - begin];
        row.clear();
        tally.for_each([&](std::int32_t other, std::int64_t sum) {
          row.emplace_back(other, static_cast<std::int32_t>(std::min<std::int64_t>(
                                      sum, std::numeric_limits<std::int32_t>::max())));
        });
      }
    });
    for (std::int64_t c = begin; c < end; ++c) {
      if (result.col_idx.size() + rows[c - begin].size() > result.col_idx.capacity()) {
        make_room(result, c, communities, rows[c - begin].size(), graph.entries());
      }
      for (const auto& [to, sum] : rows[c - begin]) {
        result.col_idx.push_back(to);
        result.edge_weights.push_back(sum);
      }
      result.row_ptr[c + 1] = static_cast<std::int64_t>(result.col_idx.size());
    }
  }
  return result;
}

ContractedNets contract_nets(const CsrView& pins, bool with_itself,
                             std::span<const std::int32_t> weights,
                             std::span<const std::int32_t> community_of) {
  ContractedNets result;
  DistinctRows distinct;
  constexpr std::int64_t kBlock = 1 << 15;
  std::vector<std::vector<std::int32_t>> rows(kBlock);
  std::vector<std::uint64_t> hashes(kBlock);
  for (std::int64_t begin = 0; begin < pins.rows(); begin += kBlock) {
    const std::int64_t end = std::min(pins.rows(), begin + kBlock);
    parallel_for(end - begin, 256, [&](std::int64_t k) {
      const std::int64_t n = begin + k;
      auto& row = rows[k];
      row.clear();
      for (const std::int32_t pin : pins.row(n)) row.push_back(community_of[pin]);
      if (with_itself) row.push_back(community_of[n]);
      std::sort(row.begin(), row.end());
      row.erase(std::unique(row.begin(), row.end()), row.end());
      hashes[k] = hash_of(row);
    });
    for (std::int64_t n = begin; n < end; ++n) {
      const auto& row = rows[n - begin];
      if (row.size() < 2) continue;
      const std::int32_t weight = weights.empty() ? 1 : weights[n];
      const std::int64_t equal = distinct.find_or_add(hashes[n - begin], row, result.pins);
      if (equal < static_cast<std::int64_t>(result.weights.size())) {
        result.weights[equal] += weight;
        continue;
      }
      result.pins.col_idx.insert(result.pins.col_idx.end(), row.begin(), row.end());
      result.pins.row_ptr.push_back(static_cast<std::int64_t>(result.pins.col_idx.size()));
      result.weights.push_back(weight);
    }
  }
  return result;
}

}  // namespace atl
