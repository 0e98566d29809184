// Holds out edges of a dataset for link prediction: `atoll split --links`.
#pragma once

#include <cstdint>
#include <filesystem>

#include "datasets/dataset.hpp"

namespace atl {

struct LinkSplit {
  double valid = 0.05;  // shares of the edges
  double test = 0.1;
  std::int64_t negatives = 100;  // drawn for each edge that is held out; 0: none are written
  std::uint64_t seed = 1;
};

// Writes a new dataset folder `out`: the nodes and features of `folder` without labels, the edges
// that are not held out as its graph, and all of them as links. An edge is a pair of nodes,
// unordered where the graph is not directed: then both directions are held out together and which
// end comes first is drawn. Self-loops are neither held out nor predicted. Negatives of an edge
// share its first end and are no edges of `folder`. Same seed, same files. Throws Error{kOption} if
// `out` exists or a share leaves a set without an edge, Error{kInput} if the folder has links or is
// damaged, or a held-out edge has no negative.
Dataset split_links(const std::filesystem::path& folder, const LinkSplit& split,
                    const std::filesystem::path& out);

}  // namespace atl
