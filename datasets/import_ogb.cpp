// The raw layout of node property sets of the Open Graph Benchmark (Hu et al., NeurIPS'20), as text
// (raw/*.csv.gz) or, for large sets, binary (raw/data.npz, raw/node-label.npz). Sets with
// raw/relations have nodes and edges of several types: import_ogb_heterogeneous.cpp.
#include "base/error.hpp"
#include "base/files.hpp"
#include "datasets/import_session.hpp"
#include "datasets/importers.hpp"
#include "datasets/ogb_text.hpp"
#include "datasets/snapshots.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

// The rows of `path`, equally long; `whose`: what has one of them.
RowStream text_rows(const fs::path& path, const char* whose) {
  return [path, whose](std::int64_t rows, const RowOpener& open) {
    FeatureWriter* writer = nullptr;
    read_ogb_features(path, rows, whose, [&](std::span<float> row) {
      if (writer == nullptr) writer = &open(std::ssize(row), path.string());
      writer->add_rows(row);
    });
  };
}

// ogbn-proteins: the species that each protein is from.
void read_species(ImportSession& session, const fs::path& path) {
  const OgbTypes types = read_ogb_types(path, session.nodes());
  session.node_types(types.type_of, std::ssize(types.numbers));
  session.note("node_types", types.numbers);
}

// When each node came, kept for --snapshots.
void keep_years(ImportSession& session, const std::vector<std::int64_t>& years) {
  write_npy(session.scratch() / kNodeYearFile, years);
}

void import_text(ImportSession& session, const fs::path& raw) {
  const std::int64_t nodes = read_ogb_count(raw / "num-node-list.csv.gz", kMaxNodes);
  const EdgeStream stream = [&](const EdgeSink& sink) {
    EdgeBlock block(sink);
    read_ogb_edges(raw, nodes, nodes,
                   [&](std::int64_t source, std::int64_t target) { block.add(source, target); });
    block.flush();
  };
  EdgeColumns columns;
  if (const fs::path path = raw / "edge-feat.csv.gz"; is_there(path)) {
    columns.features = text_rows(path, "edge");
  }
  session.graph(stream, nodes, columns, (raw / "edge.csv.gz").string());
  if (const fs::path path = raw / "node-feat.csv.gz"; is_there(path)) {
    session.features(text_rows(path, "node"));
  }
  if (const fs::path path = raw / "node_species.csv.gz"; is_there(path)) {
    read_species(session, path);
  }
  if (const fs::path path = raw / "node_year.csv.gz"; is_there(path)) {
    keep_years(session, read_years(path, session.nodes()));
  }
  if (const fs::path path = raw / "node-label.csv.gz"; is_there(path)) {
    write_ogb_labels(session, read_ogb_labels(path, nodes));
  }
}

void read_split(ImportSession& session) {
  const fs::path scheme = ogb_split_scheme(session);
  if (scheme.empty()) return;
  std::vector<std::uint8_t> split(static_cast<std::size_t>(session.nodes()), 255);
  read_ogb_split(scheme, split);
  session.splits(split, 1);
}

void import_binary(ImportSession& session, const fs::path& raw) {
  const NpzArchive archive(raw / "data.npz", session.scratch());
  const std::vector<std::int64_t> counts = read_integers(archive.open("num_nodes_list"));
  if (counts.size() != 1 || counts[0] < 1 || counts[0] > kMaxNodes) {
    fail_input("{}[num_nodes_list]: {} numbers, the first is {}; allowed is one number, 1 to {}",
               archive.path().string(), counts.size(), counts.empty() ? 0 : counts[0], kMaxNodes);
  }
  const std::function<ArrayReader()> edges = [&] { return archive.open("edge_index"); };
  EdgeColumns columns;
  if (archive.has("edge_feat")) {
    columns.features = rows_of([&] { return archive.open("edge_feat"); });
  }
  session.graph([&](const EdgeSink& sink) { stream_edge_index(edges, counts[0], {}, sink); },
                counts[0], columns, archive.path().string());
  if (archive.has("node_feat")) session.features(archive.open("node_feat"));
  if (archive.has("node_year")) {
    keep_years(session, read_years(archive.open("node_year"), session.nodes()));
  }
  if (is_there(raw / "node-label.npz")) {
    session.labels(NpzArchive(raw / "node-label.npz", session.scratch()).open("node_label"));
  }
}

}  // namespace

void import_ogb(ImportSession& session) {
  const fs::path raw = session.source() / "raw";
  if (is_there(raw / "relations")) {
    import_ogb_heterogeneous(session);
    return;
  }
  if (is_there(raw / "data.npz")) {
    import_binary(session, raw);
  } else if (is_there(raw / "edge.csv.gz")) {
    import_text(session, raw);
  } else {
    fail_input("{}: neither raw/edge.csv.gz nor raw/data.npz nor raw/relations is there",
               session.source().string());
  }
  read_split(session);
}

}  // namespace atl
