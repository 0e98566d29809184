// The importers, one per format and source file; factory.cpp names them. Internal to datasets/.
#pragma once

#include <functional>

namespace atl {

class ArrayReader;
class ImportSession;
class NamedArrays;

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

// Opens edge_features or edge_attr; empty if neither is there.
std::function<ArrayReader()> find_edge_features(NamedArrays& arrays);
// Features, labels, splits, links and types of nodes, each where it is there, with a warning of
// arrays that nobody has asked for.
void read_node_arrays(ImportSession& session, NamedArrays& arrays);

}  // namespace atl
