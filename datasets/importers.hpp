// The importers, one per format and source file; factory.cpp names them. Internal to datasets/.
#pragma once

#include <filesystem>

namespace atl {

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
void import_planetoid(ImportSession& session);

// features.npy, labels.npy and split.npy of `folder`, each where it is there.
void read_node_arrays(ImportSession& session, const std::filesystem::path& folder);

}  // namespace atl
