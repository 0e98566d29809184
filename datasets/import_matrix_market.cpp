// Matrix Market coordinate files (Boisvert, Pozo & Remington 1996, NISTIR 5935): a banner
// "%%MatrixMarket matrix coordinate FIELD SYMMETRY", comments, a line "rows columns entries", and
// an entry "i j [value]" per line, counted from 1. Entry (i, j) is the edge i -> j, as in SciPy's
// adjacency matrices; a symmetric file lists one triangle. In a folder the matrix is called *.mtx,
// and node arrays as of the `npy` format may lie beside it.
#include <algorithm>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "datasets/import_session.hpp"
#include "datasets/importers.hpp"
#include "datasets/named_arrays.hpp"
#include "datasets/text_reader.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

struct MatrixHeader {
  bool weighted = false;
  bool symmetric = false;
  std::int64_t nodes = 0;
  std::int64_t entries = 0;
};

void read_banner(LineReader& reader, MatrixHeader& header) {
  std::string_view line;
  if (!reader.next(line)) fail_input("{}: empty; a banner is expected", reader.file());
  const std::vector<std::string> words = FieldReader(line, reader).all();
  const auto require = [&](std::size_t k, const std::vector<std::string>& allowed) {
    const std::string word = k < words.size() ? words[k] : "";
    // The banner's words may be in any case, the first one aside.
    const std::string plain = k == 0 ? word : in_small_letters(word);
    if (std::ranges::count(allowed, plain) > 0) return plain;
    fail_input("{}:1: word {} is {}; allowed are {}", reader.file(), k + 1, in_quotes(word),
               fmt::join(allowed, ", "));
  };
  require(0, {"%%MatrixMarket"});
  require(1, {"matrix"});
  require(2, {"coordinate"});
  header.weighted = require(3, {"pattern", "real", "integer"}) != "pattern";
  header.symmetric = require(4, {"general", "symmetric"}) == "symmetric";
}

MatrixHeader read_head(LineReader& reader) {
  MatrixHeader header;
  read_banner(reader, header);
  std::string_view line;
  do {
    if (!reader.next(line)) {
      fail_input("{}: it ends before the line of sizes", reader.file());
    }
  } while (line.starts_with('%') || line.find_first_not_of(" \t") == std::string_view::npos);
  FieldReader fields(line, reader);
  header.nodes = fields.integer(1, kMaxNodes, "number of rows");
  FieldReader columns_place = fields;
  const std::int64_t columns = fields.integer(1, kMaxNodes, "number of columns");
  if (columns != header.nodes) {
    columns_place.fail_here(
        fmt::format("{} columns and {} rows; the matrix of a graph has as many of both", columns,
                    header.nodes));
  }
  header.entries = fields.integer(0, std::int64_t{1} << 40U, "number of entries");
  fields.expect_end();
  return header;
}

void stream_entries(const fs::path& path, const EdgeSink& sink) {
  LineReader reader(path);
  const MatrixHeader header = read_head(reader);
  EdgeBlock block(sink);
  std::string_view line;
  std::int64_t listed = 0;
  while (reader.next(line)) {
    if (line.find_first_not_of(" \t") == std::string_view::npos) continue;
    FieldReader fields(line, reader);
    const std::int64_t row = fields.integer(1, header.nodes, "row") - 1;
    const std::int64_t column = fields.integer(1, header.nodes, "column") - 1;
    const float weight = header.weighted ? fields.number("value") : 1;
    fields.expect_end();
    block.add(row, column, weight, 0);
    if (header.symmetric && row != column) block.add(column, row, weight, 0);
    ++listed;
  }
  block.flush();
  if (listed != header.entries) {
    fail_input("{}: {} entries announced, {} found", path.string(), header.entries, listed);
  }
}

bool is_matrix_name(const std::string& name) {
  return name.ends_with(".mtx") || name.ends_with(".mtx.gz");
}

}  // namespace

void import_matrix_market(ImportSession& session) {
  std::error_code error;
  std::optional<NamedArrays> arrays;
  if (fs::is_directory(session.source(), error)) {
    arrays.emplace(session.source(), session.scratch(), session.table_columns());
  }
  const fs::path path =
      arrays ? only_file(session.source(), is_matrix_name, "*.mtx") : session.source();
  LineReader reader(path);
  const MatrixHeader header = read_head(reader);
  if (arrays) {
    arrays->note_read(path);
    arrays->set_nodes(header.nodes);
  }
  session.graph([&](const EdgeSink& sink) { stream_entries(path, sink); }, header.nodes,
                {.weighted = header.weighted}, path.string());
  if (arrays) read_node_arrays(session, *arrays);
}

}  // namespace atl
