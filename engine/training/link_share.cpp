#include "engine/training/link_share.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "engine/comm/rank_values.hpp"
#include "engine/training/agreement.hpp"

namespace atl {

namespace {

const OperationLabel kLabel{"links"};

// Every rank gets its part of what rank 0 has for all.
template <typename T>
std::vector<T> scatter(Transport& transport, const std::vector<std::vector<T>>& parts) {
  const auto ranks = static_cast<std::size_t>(transport.size());
  const auto me = static_cast<std::size_t>(transport.rank());
  std::vector<std::int64_t> counts(ranks, 0);
  for (std::size_t r = 0; r < parts.size(); ++r) counts[r] = std::ssize(parts[r]);
  transport.broadcast(std::as_writable_bytes(std::span(counts)), 0, kLabel);
  if (ranks == 1) return parts[0];
  const auto mine = std::make_shared<std::vector<T>>(static_cast<std::size_t>(counts[me]));
  std::vector<std::span<const std::byte>> sends(ranks);
  std::vector<std::span<std::byte>> receives(ranks);
  if (me == 0) {
    *mine = parts[0];
    for (std::size_t r = 1; r < ranks; ++r) sends[r] = std::as_bytes(std::span(parts[r]));
  } else {
    receives[0] = std::as_writable_bytes(std::span(*mine));
  }
  transport.all_to_all_v(std::move(sends), std::move(receives), kLabel, mine)->wait_all();
  return *mine;
}

// The columns `wanted` of the rows of `ids`, which go to the owners of their first ends: those of
// `first`.
template <typename T, typename Write>
std::vector<T> scatter_rows(Transport& transport, const NodeHomes& homes, const NodeIdMatrix* first,
                            const Write& write) {
  std::vector<std::vector<T>> parts(
      transport.rank() == 0 ? static_cast<std::size_t>(transport.size()) : std::size_t{0});
  for (std::int64_t i = 0; first != nullptr && i < first->rows(); ++i) {
    write(i, parts[homes.rank[static_cast<std::size_t>(first->at(i, 0))]]);
  }
  return scatter(transport, parts);
}

NodePairs scatter_pairs(Transport& transport, const NodeHomes& homes, const NodeIdMatrix* ids) {
  const auto ends = scatter_rows<std::int32_t>(
      transport, homes, ids, [&](std::int64_t i, std::vector<std::int32_t>& part) {
        part.push_back(homes.row[static_cast<std::size_t>(ids->at(i, 0))]);
        part.push_back(static_cast<std::int32_t>(ids->at(i, 1)));
      });
  NodePairs pairs;
  for (std::size_t k = 0; k < ends.size(); k += 2) {
    pairs.row.push_back(ends[k]);
    pairs.node.push_back(ends[k + 1]);
  }
  return pairs;
}

std::int64_t largest_of(Transport& transport, std::int64_t value) {
  return std::ranges::max(values_of_ranks(transport, value, kLabel));
}

void draw_others(LinkSet& set, std::uint8_t which, std::int64_t nodes) {
  const RandomKey key{0, RandomStream::kLinkNegatives, which};
  set.each = kDrawnNegatives;
  for (const std::int64_t number : set.number) {
    for (std::uint32_t column = 0; column < kDrawnNegatives; ++column) {
      const auto row = static_cast<std::uint64_t>(number);
      set.others.push_back(static_cast<std::int32_t>(random_node(key, row, column, nodes)));
    }
  }
}

}  // namespace

LinkShare LinkShare::read(Transport& transport, const std::filesystem::path& folder,
                          std::span<const GlobalId> inner_ids, std::int64_t nodes) {
  Links links;
  on_all_ranks(transport, [&] {
    if (transport.rank() != 0) return;
    links = Links::open(folder);
    links.check(nodes);
  });
  LinkShare share;
  share.homes = NodeHomes::share(transport, inner_ids, nodes);
  for (std::size_t s = 0; s < share.sets.size(); ++s) {
    LinkSet& set = share.sets[s];
    const NodeIdMatrix* edges = links.there() ? &*links.edges[s] : nullptr;
    set.edges = scatter_pairs(transport, share.homes, edges);
    set.number = scatter_rows<std::int64_t>(
        transport, share.homes, edges,
        [](std::int64_t i, std::vector<std::int64_t>& part) { part.push_back(i); });
    set.total = sum_over_ranks(transport, set.edges.size(), kLabel);
    set.largest = largest_of(transport, set.edges.size());
    if (s == 0) continue;
    const LinkNegatives* negatives =
        links.there() && links.negatives[s - 1] ? &*links.negatives[s - 1] : nullptr;
    // 0: none, 2: shared, else so many of each edge.
    const auto columns = sum_over_ranks<std::int64_t>(
        transport, negatives != nullptr ? negatives->ids.columns() : 0, kLabel);
    if (columns == 0) {
      draw_others(set, static_cast<std::uint8_t>(s), nodes);
    } else if (columns == 2) {
      set.shared =
          scatter_pairs(transport, share.homes, negatives != nullptr ? &negatives->ids : nullptr);
      set.largest_shared = largest_of(transport, set.shared.size());
    } else {
      set.each = columns;
      set.others = scatter_rows<std::int32_t>(
          transport, share.homes, edges, [&](std::int64_t i, std::vector<std::int32_t>& part) {
            for (std::int64_t c = 0; c < columns; ++c) {
              part.push_back(static_cast<std::int32_t>(negatives->ids.at(i, c)));
            }
          });
    }
  }
  return share;
}

}  // namespace atl
