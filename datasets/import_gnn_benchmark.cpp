// gnn-benchmark sets (Shchur et al., "Pitfalls of graph neural network evaluation", 2018): one .npz
// with adjacency and features as sparse rows, and labels.
#include "base/error.hpp"
#include "datasets/import_session.hpp"
#include "datasets/importers.hpp"
#include "datasets/sparse_member.hpp"

namespace atl {

namespace {

// Two spellings are in use: adj_data and adj_matrix.data.
std::string prefix_of(const NpzArchive& archive, const std::string& noun) {
  for (const std::string& prefix : {noun + "_", noun + "_matrix."}) {
    if (archive.has(prefix + "indptr")) return prefix;
  }
  return "";
}

}  // namespace

void import_gnn_benchmark(ImportSession& session) {
  const NpzArchive archive(session.source(), session.scratch());
  const std::string adjacency_prefix = prefix_of(archive, "adj");
  const SparseMember adjacency(archive, adjacency_prefix.empty() ? "adj_" : adjacency_prefix);
  session.graph([&](const EdgeSink& sink) { adjacency.stream_edges(sink); }, adjacency.rows(), {},
                archive.path().string());
  const std::string attribute_prefix = prefix_of(archive, "attr");
  if (!attribute_prefix.empty()) {
    const SparseMember attributes(archive, attribute_prefix);
    if (attributes.rows() != session.nodes()) {
      fail_input("{}[{}shape]: {} rows found, {} expected (one per node)", archive.path().string(),
                 attribute_prefix, attributes.rows(), session.nodes());
    }
    attributes.write_features(session);
  } else if (archive.has("attr_matrix")) {
    session.features(archive.open("attr_matrix"));
  }
  if (archive.has("labels")) session.labels(archive.open("labels"));
}

}  // namespace atl
