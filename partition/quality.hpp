// The costs of a partition: edges cut, halo rows per pair of parts, and how even the parts are.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "partition/message_cover.hpp"

namespace atl {

struct PartQuality {
  std::int64_t nodes = 0;           // inner
  std::int64_t central = 0;         // without remote neighbour
  std::int64_t edges = 0;           // in-edges of inner nodes, as stored
  std::int64_t marginal_edges = 0;  // those of marginal nodes
  std::int64_t training_nodes = 0;
  std::int64_t cost = 0;          // kNodeCost per node + mean of in- and out-degree
  std::int64_t halo_forward = 0;  // rows received
  std::int64_t halo_backward = 0;
};

struct PartitionQuality {
  std::vector<double> shares;  // wanted, per part
  std::vector<PartQuality> parts;
  std::int64_t cut_edges = 0;  // stored edges whose ends lie in different parts
  // [to * parts + from]: rows that `to` receives from `from`.
  std::vector<std::int64_t> forward_rows;
  std::vector<std::int64_t> backward_rows;
  // The same of messages that are rows and partial sums. Empty: not counted.
  CoverCounts forward_cover;
  CoverCounts backward_cover;

  bool counts_covers() const {
    return !forward_cover.messages.empty() || !backward_cover.messages.empty();
  }
  // From one part to another, and how many of them are sums. covers: those of a cover, if these
  // were counted.
  struct Messages {
    std::int64_t count = 0;
    std::int64_t sums = 0;
  };
  Messages messages(Direction direction, int from, int to, bool covers) const {
    const bool forward = direction == Direction::kForward;
    const std::size_t pair =
        static_cast<std::size_t>(to) * parts.size() + static_cast<std::size_t>(from);
    const CoverCounts& cover = forward ? forward_cover : backward_cover;
    if (covers && !cover.messages.empty()) return {cover.messages[pair], cover.sums[pair]};
    return {(forward ? forward_rows : backward_rows)[pair], 0};
  }

  PartQuality total() const;
  // Largest ratio of a part's quantity to its share of the whole; 1 is perfect, 0 if there is none.
  double balance(std::int64_t PartQuality::*quantity) const;
};

// `split`: one entry per node, 0 = training; empty if there is none. `shares` as
// PartitionProblem::shares.
PartitionQuality measure_quality(const LocalGraphBuilder& builder,
                                 std::span<const std::uint8_t> split, std::vector<double> shares);

Json to_json(const PartitionQuality& quality);
// The reverse; throws Error{kInput} naming `file` and the field that is wrong.
PartitionQuality parse_quality(const Json& json, const std::filesystem::path& file);
// A table for people: one line per part, then totals, balances and, up to 16 parts, the halo rows
// per pair.
std::string to_text(const PartitionQuality& quality);

}  // namespace atl
