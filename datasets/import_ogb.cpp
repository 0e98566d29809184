// The raw layout of node property sets of the Open Graph Benchmark (Hu et al., NeurIPS'20), as text
// (raw/*.csv.gz) or, for large sets, binary (raw/data.npz, raw/node-label.npz).
#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "base/files.hpp"
#include "datasets/import_session.hpp"
#include "datasets/importers.hpp"
#include "datasets/text_reader.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

// The only number of a list with one graph.
std::int64_t read_single_count(const fs::path& path, std::int64_t maximum) {
  LineReader reader(path);
  std::string_view line;
  if (!reader.next(line)) fail_input("{}: empty; one number is expected", path.string());
  FieldReader fields(line, reader);
  const std::int64_t count = fields.integer(1, maximum, "number");
  fields.expect_end();
  if (reader.next(line)) {
    fail_input("{}: more than one graph; only sets of one graph can be imported", path.string());
  }
  return count;
}

void text_edges(const fs::path& raw, std::int64_t nodes, const EdgeSink& sink) {
  LineReader reader(raw / "edge.csv.gz");
  EdgeBlock block(sink);
  std::string_view line;
  std::int64_t edges = 0;
  while (reader.next(line)) {
    FieldReader fields(line, reader);
    const std::int64_t source = fields.integer(0, nodes - 1, "node id");
    const std::int64_t target = fields.integer(0, nodes - 1, "node id");
    fields.expect_end();
    block.add(source, target);
    ++edges;
  }
  block.flush();
  const fs::path count = raw / "num-edge-list.csv.gz";
  if (is_there(count)) {
    const std::int64_t expected = read_single_count(count, std::int64_t{1} << 40U);
    if (edges != expected) {
      fail_input("{}: {} edges found, {} expected from {}", reader.file(), edges, expected,
                 count.filename().string());
    }
  }
}

void check_rows(const LineReader& reader, std::int64_t rows, std::int64_t nodes) {
  if (rows != nodes) {
    fail_input("{}: {} lines found, {} expected (one per node)", reader.file(), rows, nodes);
  }
}

void text_features(ImportSession& session, const fs::path& path) {
  LineReader reader(path);
  std::string_view line;
  std::vector<float> row;
  std::optional<FeatureWriter> writer;
  std::int64_t rows = 0;
  while (rows <= session.nodes() && reader.next(line)) {
    FieldReader fields(line, reader);
    const std::size_t columns = row.size();
    row.clear();
    while (!fields.done()) row.push_back(fields.number("feature"));
    if (row.empty()) fields.fail_here("features expected, an empty line found");
    if (!writer) {
      writer.emplace(session.features(static_cast<std::int64_t>(row.size()), reader.file()));
    } else if (row.size() != columns) {
      fields.fail_here(fmt::format("{} features found, {} expected", row.size(), columns));
    }
    ++rows;
    if (rows <= session.nodes()) writer->add_rows(row);
  }
  check_rows(reader, rows, session.nodes());
  writer->close();
}

// One column: a class, NaN or empty = none. Several: 0 or 1 per class, NaN = none.
void text_labels(ImportSession& session, const fs::path& path) {
  LineReader reader(path);
  std::string_view line;
  std::vector<std::int32_t> values;
  std::int64_t columns = 0;
  std::int64_t rows = 0;
  while (rows <= session.nodes() && reader.next(line)) {
    FieldReader fields(line, reader);
    std::int64_t found = 0;
    while (!fields.done()) {
      const FieldReader here = fields;
      const double value = fields.any_number("label");
      const bool none = value != value || value == -1;
      if (!none &&
          (value < 0 || value > 2e9 || value != static_cast<double>(std::int64_t(value)))) {
        here.fail_here(
            fmt::format("label {} found; allowed are whole numbers from 0, and nan", value));
      }
      values.push_back(none ? -1 : static_cast<std::int32_t>(value));
      ++found;
    }
    if (rows == 0) columns = found;
    if (found != columns || found == 0) {
      fields.fail_here(
          fmt::format("{} labels found, {} expected", found, std::max<std::int64_t>(1, columns)));
    }
    ++rows;
  }
  check_rows(reader, rows, session.nodes());
  if (columns == 1) {
    session.labels(std::move(values), reader.file());
    return;
  }
  std::vector<std::uint8_t> many(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] > 1) {
      fail_input("{}: line {}: label {} found; allowed are 0, 1 and nan where a node has {} labels",
                 reader.file(), static_cast<std::int64_t>(i) / columns + 1, values[i], columns);
    }
    many[i] = values[i] < 0 ? std::uint8_t{255} : static_cast<std::uint8_t>(values[i]);
  }
  session.multi_labels(many, columns);
}

// The only folder in split/.
fs::path split_scheme(const fs::path& folder) {
  std::vector<fs::path> schemes;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_directory()) schemes.push_back(entry.path());
  }
  if (schemes.size() != 1) {
    fail_input("{}: {} split schemes (folders) found, 1 expected", folder.string(), schemes.size());
  }
  return schemes.front();
}

void read_split(ImportSession& session, const fs::path& source) {
  if (!is_there(source / "split")) return;
  const fs::path scheme = split_scheme(source / "split");
  if (is_there(scheme / "split_dict.pt")) {
    fail_input(
        "{}: splits saved by PyTorch can't be read; save train, valid and test as .csv.gz, one "
        "node id per line",
        (scheme / "split_dict.pt").string());
  }
  std::vector<std::uint8_t> split(static_cast<std::size_t>(session.nodes()), 255);
  constexpr std::array<const char*, 3> kParts = {"train", "valid", "test"};
  for (std::uint8_t part = 0; part < 3; ++part) {
    LineReader reader(scheme / (std::string(kParts[part]) + ".csv.gz"));
    std::string_view line;
    while (reader.next(line)) {
      FieldReader fields(line, reader);
      const FieldReader here = fields;
      const std::int64_t node = fields.integer(0, session.nodes() - 1, "node id");
      fields.expect_end();
      if (split[node] != 255) {
        here.fail_here(fmt::format("node {} is in {} already", node, kParts[split[node]]));
      }
      split[node] = part;
    }
  }
  session.note("split_scheme", scheme.filename().string());
  session.splits(split, 1);
}

void import_text(ImportSession& session, const fs::path& raw) {
  const std::int64_t nodes = read_single_count(raw / "num-node-list.csv.gz", kMaxNodes);
  session.graph([&](const EdgeSink& sink) { text_edges(raw, nodes, sink); }, nodes, false,
                (raw / "edge.csv.gz").string());
  if (is_there(raw / "node-feat.csv.gz")) text_features(session, raw / "node-feat.csv.gz");
  if (is_there(raw / "node-label.csv.gz")) text_labels(session, raw / "node-label.csv.gz");
}

void import_binary(ImportSession& session, const fs::path& raw) {
  const NpzArchive archive(raw / "data.npz");
  const std::vector<std::int64_t> counts = read_integers(archive.open("num_nodes_list"));
  if (counts.size() != 1 || counts[0] < 1 || counts[0] > kMaxNodes) {
    fail_input("{}[num_nodes_list]: {} numbers, the first is {}; allowed is one number, 1 to {}",
               archive.path().string(), counts.size(), counts.empty() ? 0 : counts[0], kMaxNodes);
  }
  const std::function<ArrayReader()> edges = [&] { return archive.open("edge_index"); };
  session.graph([&](const EdgeSink& sink) { stream_edge_index(edges, counts[0], nullptr, sink); },
                counts[0], false, archive.path().string());
  if (archive.has("node_feat")) session.features(archive.open("node_feat"));
  if (is_there(raw / "node-label.npz")) {
    session.labels(NpzArchive(raw / "node-label.npz").open("node_label"));
  }
}

}  // namespace

void import_ogb(ImportSession& session) {
  const fs::path raw = session.source() / "raw";
  if (is_there(raw / "data.npz")) {
    import_binary(session, raw);
  } else if (is_there(raw / "edge.csv.gz")) {
    import_text(session, raw);
  } else {
    fail_input("{}: neither raw/edge.csv.gz nor raw/data.npz is there", session.source().string());
  }
  read_split(session, session.source());
}

}  // namespace atl
