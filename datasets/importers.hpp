// The importers, one per format and source file; factory.cpp names them. Internal to datasets/.
#pragma once

#include <filesystem>
#include <functional>

namespace atl {

class ArrayReader;
class ImportSession;

// Each reads session.source() and hands graph, features, labels and splits to the session. Throws
// Error{kInput} naming file and place.
void import_edges(ImportSession& session);
void import_gnn_benchmark(ImportSession& session);
void import_graphsaint(ImportSession& session);
void import_heterophilous(ImportSession& session);
void import_metis(ImportSession& session);
void import_npy(ImportSession& session);
void import_ogb(ImportSession& session);
void import_ogb_heterogeneous(ImportSession& session);  // called by import_ogb
void import_planetoid(ImportSession& session);

// Opens edge_features.npy or edge_attr.npy of `folder`; empty if neither is there.
std::function<ArrayReader()> edge_features_opener(const std::filesystem::path& folder);
// features.npy, labels.npy, split.npy and node_types.npy of `folder`, each where it is there.
void read_node_arrays(ImportSession& session, const std::filesystem::path& folder);

}  // namespace atl
