// The part of a dataset that the results of some of its nodes follow from, as a part of a graph:
// what lies farther away is not read.
#pragma once

#include <span>

#include "datasets/shard.hpp"

namespace atl {

// The nodes from which at most `hops` edges lead to one of `nodes`, which are ascending, each once.
// Inner nodes are ordered by how many edges do (LocalGraphView::within), and those that are equally
// far by their ids. The farthest have no in-edges here, but the degrees that they have in the
// dataset. It is for forward passes alone: it has no transpose, and stands as if it were symmetric.
//
// Reads, and checks, rows of features and of in-edges of these nodes alone, so what is wrong
// elsewhere goes unnoticed. Throws Error{kInput} with file, place, value and allowed values.
Shard neighbourhood(const Dataset& dataset, std::span<const GlobalId> nodes, int hops);

}  // namespace atl
