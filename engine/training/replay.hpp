// The buffer of a run on a graph that has grown: old training nodes whose labels are used again
// beside those of new nodes, and how much each of them counts (docs/growing.md).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/json.hpp"
#include "datasets/dataset.hpp"
#include "engine/comm/transport.hpp"
#include "engine/training/rank_data.hpp"
#include "engine/training/replay_options.hpp"

namespace atl {

class Trainer;

struct ReplayBuffer {
  std::int64_t first_new = 0;      // nodes with smaller ids are old
  std::int64_t new_nodes = 0;      // labelled training nodes: new ones
  std::int64_t old_nodes = 0;      // and old ones, of which the buffer is a part
  std::vector<GlobalId> nodes;     // of the buffer, ascending
  std::vector<float> weights;      // of these in the loss, mean 1; empty: all 1
  std::array<double, 2> distance;  // of means, without weights and with them; if there are weights
};

// Who is chosen depends on the graph, its labels and its split, the options and the seed alone, not
// on ranks or cuts. radius: that with which `cover` begins. Throws Error{kOption} if nobody is left
// to train on.
//   random: the nodes whose draws are least.
//   degree: the nodes with the most neighbours, counted in both directions; then by draws.
//   cover: see cover_of_classes(). Classes have shares of the buffer as of the old nodes.
ReplayBuffer choose_replay(const Dataset& dataset, const ReplayOptions& options,
                           std::int64_t first_new, std::int64_t split_index, std::uint64_t seed,
                           int radius);
// Rank 0's, on all ranks. Collective.
void share_replay(Transport& transport, ReplayBuffer& buffer);

// Nodes of one class that may be chosen, in the order of their priority, and how many are wanted.
struct CoverClass {
  std::vector<std::int32_t> candidates;
  std::int64_t wanted = 0;
};
// For each class a set that is spread over the graph. With radius r, from `radius` down to 0, nodes
// are taken in the order of their priority which are more than r edges, in either direction, from
// every node taken before, until there are as many as are wanted. Those taken then lie more than r
// apart, with the last r; and every candidate lies within r + 1 of one of them, unless r is still
// `radius`. Fewer nodes could not do so within r / 2, so it is a cover within a factor of 2 of the
// best (Hochbaum and Shmoys, "A best possible heuristic for the k-center problem", 1985). Parallel
// rounds of local minima (Luby) by the same priorities find the same set.
std::vector<std::vector<std::int32_t>> cover_of_classes(const GraphView& graph,
                                                        std::span<const CoverClass> classes,
                                                        int radius);

// `split` [nodes] of the nodes `ids` [nodes] without old training nodes that are not in the buffer,
// and old validation nodes.
std::vector<std::uint8_t> split_with(const ReplayBuffer& buffer, std::span<const GlobalId> ids,
                                     std::span<const std::uint8_t> split);

// The most that a node of the buffer may count.
inline constexpr double kMostReplayWeight = 5;
// Weights in [0, most] with mean 1, so that the weighted mean of `rows` [nodes, columns] is as
// close to `target` as they allow: projected gradient with momentum (FISTA; Beck and Teboulle,
// 2009), from all 1.
std::vector<double> match_weights(std::span<const double> rows, std::span<const double> target,
                                  double most);
// Sets them, for the mean of all old nodes in what the trainer's last layer gets now. old_rows: of
// this rank, labelled and trained on before there was a buffer. Collective.
void match_replay(ReplayBuffer& buffer, Trainer& trainer, std::span<const LocalId> old_rows);

// The weights of all rows of a rank in the loss, so scaled that the divisor of a mean of losses
// needs no change: their weighted sum over all ranks' training nodes is loss_total(). Collective.
std::vector<float> replay_row_weights(const ReplayBuffer& buffer, const RankData& data,
                                      Transport& transport);

Json to_json(const ReplayBuffer& buffer);

}  // namespace atl
