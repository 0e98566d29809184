// METIS graph files (Karypis, METIS manual 5.1, section 4.1.1): a header "nodes edges [fmt
// [ncon]]", then one line per node with its neighbours, counted from 1; fmt "011" means node
// weights and edge weights (the first digit: node sizes). Every edge stands in both lines. % starts
// a comment.
#include <algorithm>

#include "base/error.hpp"
#include "datasets/import_session.hpp"
#include "datasets/importers.hpp"
#include "datasets/text_reader.hpp"

namespace atl {

namespace {

struct MetisHeader {
  std::int64_t nodes = 0;
  std::int64_t edges = 0;  // undirected
  bool sizes = false;
  bool edge_weights = false;
  std::int64_t node_weights = 0;  // per node
};

bool next_line(LineReader& reader, std::string_view& line) {
  while (reader.next(line)) {
    if (!line.starts_with('%')) return true;
  }
  return false;
}

MetisHeader parse_header(LineReader& reader) {
  std::string_view line;
  if (!next_line(reader, line)) fail_input("{}: empty; a header is expected", reader.file());
  FieldReader fields(line, reader);
  MetisHeader header;
  header.nodes = fields.integer(1, kMaxNodes, "number of nodes");
  header.edges = fields.integer(0, std::int64_t{1} << 40U, "number of edges");
  if (fields.done()) return header;
  const FieldReader format_place = fields;
  const std::int64_t format = fields.integer(0, 111, "fmt");
  if (format % 10 > 1 || format / 10 % 10 > 1) {
    format_place.fail_here(fmt::format("fmt {}; allowed are three digits 0 or 1", format));
  }
  header.edge_weights = format % 10 == 1;
  header.node_weights = format / 10 % 10;
  header.sizes = format / 100 == 1;
  if (!fields.done()) {
    const std::int64_t weights = fields.integer(0, 1000, "ncon");
    if (header.node_weights == 1 && weights > 0) header.node_weights = weights;
  }
  fields.expect_end();
  return header;
}

MetisHeader read_header(const std::filesystem::path& path) {
  LineReader reader(path);
  return parse_header(reader);
}

// Node sizes and weights are checked, but not kept.
void skip_node_weights(FieldReader& fields, const MetisHeader& header) {
  constexpr auto kLargest = std::int64_t{1} << 62U;
  if (header.sizes) fields.integer(0, kLargest, "node size");
  for (std::int64_t k = 0; k < header.node_weights; ++k) fields.integer(0, kLargest, "node weight");
}

void stream_rows(const std::filesystem::path& path, const EdgeSink& sink) {
  LineReader reader(path);
  const MetisHeader header = parse_header(reader);
  EdgeBlock block(sink);
  std::string_view line;
  std::int64_t listed = 0;
  for (std::int64_t node = 0; node < header.nodes; ++node) {
    if (!next_line(reader, line)) {
      fail_input("{}: {} nodes announced, but only {} lines follow", reader.file(), header.nodes,
                 node);
    }
    FieldReader fields(line, reader);
    skip_node_weights(fields, header);
    while (!fields.done()) {
      const std::int64_t neighbour = fields.integer(1, header.nodes, "node number") - 1;
      block.add(neighbour, node, header.edge_weights ? fields.number("edge weight") : 1.0F);
      ++listed;
    }
  }
  while (next_line(reader, line)) FieldReader(line, reader).expect_end();
  block.flush();
  if (listed != 2 * header.edges) {
    fail_input("{}: {} neighbours listed, {} expected (twice the {} edges of the header)",
               reader.file(), listed, 2 * header.edges, header.edges);
  }
}

}  // namespace

void import_metis(ImportSession& session) {
  const std::string file = session.source().string();
  const MetisHeader header = read_header(session.source());
  session.set_edges_source(header.edges);
  const EdgeStream stream = [&](const EdgeSink& sink) { stream_rows(session.source(), sink); };
  const BuiltGraph built =
      session.graph(stream, header.nodes, {.weighted = header.edge_weights}, file);
  if (built.one_way > 0) {
    const Edge& edge = built.first_one_way;
    fail_input("{}: node {} lists {}, but node {} doesn't list {} (numbered from 1)", file,
               edge.target + 1, edge.source + 1, edge.source + 1, edge.target + 1);
  }
  if (header.node_weights > 0) session.note("node_weights", "ignored");
}

}  // namespace atl
