// Features of nodes that have none, made of the graph or drawn: --features of `atoll import`, and
// `atoll features`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "base/csr.hpp"
#include "base/feature_source.hpp"
#include "datasets/dataset.hpp"

namespace atl {

// Throws Error{kOption} unless make_features() or make_edge_means() makes it.
void require_made(const FeatureSource& source);
// Columns that it makes.
std::int64_t made_columns(const FeatureSource& source, bool directed);

// Any number of whole rows, in the order of the nodes.
using RowSink = std::function<void(std::span<float>)>;

// degree: log(1 + number of in-edges), and of a directed graph in a second column of out-edges.
// constant: 1. random: standard normal numbers by node and seed. positional: see
// positional_features().
void make_features(const FeatureSource& source, std::uint64_t seed, const CsrView& in_edges,
                   bool directed, const RowSink& sink);

// edges: of each node the mean of the features of its in-edges [in_edges.nnz(), columns], 0 without
// any: what OGB's examples for ogbn-proteins begin with (Hu et al. 2020).
void make_edge_means(const CsrView& in_edges, std::span<const float> edge_features,
                     std::int64_t columns, const RowSink& sink);

// Laplacian eigenvectors (Belkin & Niyogi 2003; as positions of nodes in GNNs: Dwivedi et al.
// 2020): column k belongs to the k-th smallest eigenvalue above 0 of I - D^-1/2 A D^-1/2, where A
// has the edges in both directions, without weights and self-loops. Each has the mean square 1 and
// its first largest entry positive; nodes without edges have 0. By subspace iteration with
// Chebyshev filters (Zhou, Saad, Tiago & Chelikowsky 2006) in double, to a residual of 1e-7, or 100
// rounds and a warning. Takes 16 bytes per node and D + 8 columns. Throws Error{kOption} if there
// are fewer eigenvalues above 0 than columns. [nodes, columns], the same for any number of threads.
std::vector<double> positional_features(const CsrView& neighbours, std::int64_t columns,
                                        std::uint64_t seed);

// Gives a dataset folder features.npy, as DatasetChange does. Throws Error{kOption} if it has
// features and `replace` is false. Returns the dataset as it is now.
Dataset give_features(const std::filesystem::path& folder, const FeatureSource& source,
                      std::uint64_t seed, bool replace);

}  // namespace atl
