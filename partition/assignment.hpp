// Which part runs on which rank: partitioners know nothing of links, so parts that exchange many
// rows may be put on ranks with fast links between them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace atl {

// Up to this many parts all assignments are compared.
inline constexpr int kMostExactParts = 8;

struct PartOrder {
  std::vector<int> order;  // rank r runs part order[r]; as PartitionOptions::part_order
  double cost = 0;         // as order_cost, of this order
  bool exact = false;      // no order costs less
  // How many orders were compared if exact. Ranks and islands that are alike are merged: two
  // islands of four equal ranks have 35 orders, not 40,320.
  std::int64_t compared = 0;
};

// Seconds of all rows on their links: the sum over ranks `to` and `from` of volume[to's part *
// parts
// + from's part] * link_cost[to * parts + from]. `volume` [parts * parts]: rows that part `to`
// receives from part `from`, as PartitionQuality::forward_rows. `link_cost` [parts * parts]: of one
// row over the link from rank `from` to rank `to`. The diagonals are ignored.
double order_cost(std::span<const std::int64_t> volume, std::span<const double> link_cost,
                  std::span<const int> order);

// The order with the least cost; of equals the first in alphabetical order, so rank order if
// nothing is better. Up to kMostExactParts parts by comparing all, beyond by a greedy start and
// exchanges of pairs until none helps (parts^3 steps per round). Deterministic. Throws
// Error{kInput} unless both matrices are square and alike, and all costs finite and at least 0.
PartOrder best_part_order(std::span<const std::int64_t> volume, std::span<const double> link_cost,
                          int parts);

}  // namespace atl
