// The importers, one per format and source file; factory.cpp names them. Internal to datasets/.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "datasets/import_session.hpp"

namespace atl {

class NamedArrays;
class NodeIds;
class NpzArchive;
struct EdgeLines;

// Each reads session.source() and hands graph, features, labels and splits to the session. Throws
// Error{kInput} naming file and place.
void import_edges(ImportSession& session);
void import_gnn_benchmark(ImportSession& session);
void import_graphsaint(ImportSession& session);
void import_heterophilous(ImportSession& session);
void import_matrix_market(ImportSession& session);
void import_metis(ImportSession& session);
void import_npy(ImportSession& session);
void import_ogb(ImportSession& session);
void import_ogb_heterogeneous(ImportSession& session);  // called by import_ogb
void import_planetoid(ImportSession& session);

// Whether the archive is what scipy.sparse.save_npz writes; and the graph of such a one, where
// entry (i, j) is the edge i -> j. Values are weights, unless all are 1.
bool is_scipy_matrix(const NpzArchive& archive);
void import_scipy_matrix(ImportSession& session, const std::filesystem::path& path);
// Whether the file begins as archives do.
bool is_zip_archive(const std::filesystem::path& path);

// The only file of a folder whose name is one of those that are `called` so. Throws Error{kInput}
// if it is not the only one.
std::filesystem::path only_file(const std::filesystem::path& folder,
                                bool (*is_one)(const std::string& name), const char* called);

// The edges of a text whose columns are `lines`, with ids from 0 to nodes - 1 (-1: any), or those
// that `ids` know. `remedy`: against others.
void stream_edge_lines(const std::filesystem::path& path, std::int64_t nodes,
                       const EdgeLines& lines, const NodeIds* ids, const char* remedy,
                       const EdgeSink& sink);

// How many nodes --nodes or arrays of nodes state; -1: none does. Text with ids states the least.
struct StatedNodes {
  std::int64_t exact = -1;
  std::int64_t least = 0;
};
StatedNodes stated_nodes(const ImportSession& session, NamedArrays& arrays);
// The same after renumbering: adds the ids of text to those of edges and numbers all.
StatedNodes renumbered_nodes(const ImportSession& session, NodeIds& ids, NamedArrays* arrays);

// Rows of edge_features or edge_attr; empty if neither is there.
RowStream find_edge_features(NamedArrays& arrays);
// Features, labels, splits, links and types of nodes, each where it is there, with a warning of
// arrays that nobody has asked for.
void read_node_arrays(ImportSession& session, NamedArrays& arrays);

}  // namespace atl
