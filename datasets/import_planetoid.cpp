// Planetoid sets (Yang, Cohen, Salakhutdinov, ICML'16): PREFIX.{allx,ally,tx,ty,y,graph} are
// pickles, PREFIX.test.index is text. The standard split: the first rows of allx (as many as y has)
// train, the next 500 validate, test.index tests.
#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "datasets/import_session.hpp"
#include "datasets/importers.hpp"
#include "datasets/pickle.hpp"
#include "datasets/text_reader.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kValidNodes = 500;

// SOURCE/prefix, or the only set in folder SOURCE.
std::string find_prefix(const fs::path& source) {
  std::error_code error;
  if (!fs::is_directory(source, error)) return source.string();
  std::vector<std::string> prefixes;
  for (const auto& entry : fs::directory_iterator(source)) {
    if (entry.path().extension() == ".allx") {
      prefixes.push_back((entry.path().parent_path() / entry.path().stem()).string());
    }
  }
  std::sort(prefixes.begin(), prefixes.end());
  if (prefixes.size() == 1) return prefixes[0];
  if (prefixes.empty()) {
    fail_input("{}: no Planetoid set (a file called *.allx) is there", source.string());
  }
  fail_input("{}: holds several sets; name one of {}", source.string(), fmt::join(prefixes, ", "));
}

std::vector<std::int64_t> read_test_index(const fs::path& path) {
  LineReader reader(path);
  std::string_view line;
  std::vector<std::int64_t> nodes;
  while (reader.next(line)) {
    FieldReader fields(line, reader);
    if (fields.done()) continue;
    nodes.push_back(fields.integer(0, kMaxNodes - 1, "node id"));
    fields.expect_end();
  }
  if (nodes.empty()) fail_input("{}: no test node is listed", path.string());
  return nodes;
}

// Which row of which matrix describes each node: rows of allx come first, row i of tx describes
// node test_index[i]; nodes between (isolated test nodes, as in citeseer) have none.
struct NodeRows {
  std::int64_t trained = 0;            // rows of allx
  std::vector<std::int64_t> test_row;  // of node trained + k: row of tx, or -1
  std::int64_t nodes() const { return trained + static_cast<std::int64_t>(test_row.size()); }
};

NodeRows assign_rows(std::int64_t trained, std::span<const std::int64_t> test_index,
                     const std::string& prefix) {
  const std::int64_t last = *std::max_element(test_index.begin(), test_index.end());
  const std::int64_t limit = trained + 2 * static_cast<std::int64_t>(test_index.size()) + (1 << 16);
  if (last >= limit) {
    fail_input("{}.test.index: node id {}; with {} rows in allx and {} test nodes it is at most {}",
               prefix, last, trained, test_index.size(), limit - 1);
  }
  NodeRows rows{trained,
                std::vector<std::int64_t>(
                    static_cast<std::size_t>(std::max<std::int64_t>(0, last + 1 - trained)), -1)};
  for (std::size_t i = 0; i < test_index.size(); ++i) {
    const std::int64_t k = test_index[i] - trained;
    if (k < 0 || rows.test_row[k] >= 0) {
      fail_input("{}.test.index: line {}: node {} {}", prefix, i + 1, test_index[i],
                 k < 0 ? "has its features in allx already" : "is listed twice");
    }
    rows.test_row[k] = static_cast<std::int64_t>(i);
  }
  return rows;
}

void expect_rows(const Pickle& pickle, const PickledMatrix& matrix, std::int64_t rows,
                 std::int64_t columns) {
  if (matrix.rows != rows || matrix.columns != columns) {
    fail_input("{}: {} x {} found, {} x {} expected", pickle.file(), matrix.rows, matrix.columns,
               rows, columns);
  }
}

void write_planetoid_features(ImportSession& session, const PickledMatrix& allx,
                              const PickledMatrix& tx, const NodeRows& rows,
                              const std::string& prefix) {
  FeatureWriter writer = session.sparse_features(
      allx.columns, static_cast<std::int64_t>(allx.values.size() + tx.values.size()),
      prefix + ".allx");
  std::vector<float> row(static_cast<std::size_t>(allx.columns));
  for (std::int64_t node = 0; node < rows.nodes(); ++node) {
    std::fill(row.begin(), row.end(), 0.0F);
    const bool in_allx = node < rows.trained;
    const PickledMatrix& matrix = in_allx ? allx : tx;
    const std::int64_t at = in_allx ? node : rows.test_row[node - rows.trained];
    if (at >= 0) {
      for (std::int64_t e = matrix.row_ptr[at]; e < matrix.row_ptr[at + 1]; ++e) {
        row[matrix.col_idx[e]] += matrix.values[e];
      }
    }
    writer.add_rows(row);
  }
  writer.close();
}

// One-hot rows; a row of zeros is no label.
void write_labels(ImportSession& session, const Pickle& ally_file, const Pickle& ty_file,
                  const PickledMatrix& ally, const PickledMatrix& ty, const NodeRows& rows) {
  std::vector<std::int32_t> labels(static_cast<std::size_t>(rows.nodes()), -1);
  for (std::int64_t node = 0; node < rows.nodes(); ++node) {
    const bool in_allx = node < rows.trained;
    const PickledMatrix& matrix = in_allx ? ally : ty;
    const std::int64_t at = in_allx ? node : rows.test_row[node - rows.trained];
    if (at < 0) continue;
    const std::int64_t found = matrix.row_ptr[at + 1] - matrix.row_ptr[at];
    if (found > 1) {
      fail_input("{}: row {} has {} classes; allowed is one per node",
                 (in_allx ? ally_file : ty_file).file(), at, found);
    }
    if (found == 1) labels[node] = matrix.col_idx[matrix.row_ptr[at]];
  }
  session.labels(std::move(labels), ally_file.file());
}

void write_planetoid_graph(ImportSession& session, const std::string& prefix, std::int64_t nodes) {
  const Pickle pickle(prefix + ".graph");
  const auto adjacency = read_adjacency(pickle);
  const auto check = [&](std::int64_t id) {
    if (id >= nodes) {
      fail_input("{}: node id {}; allowed are 0 to {}", pickle.file(), id, nodes - 1);
    }
  };
  for (const auto& [node, neighbours] : adjacency) {
    check(node);
    for (const std::int64_t neighbour : neighbours) check(neighbour);
  }
  const EdgeStream stream = [&](const EdgeSink& sink) {
    EdgeBlock block(sink);
    for (const auto& [node, neighbours] : adjacency) {
      for (const std::int64_t neighbour : neighbours) block.add(node, neighbour);
    }
    block.flush();
  };
  session.graph(stream, nodes, {}, pickle.file());
}

void write_planetoid_split(ImportSession& session, std::int64_t train, std::int64_t trained,
                           std::span<const std::int64_t> test_index) {
  std::vector<std::uint8_t> split(static_cast<std::size_t>(session.nodes()), 255);
  for (std::int64_t i = 0; i < std::min(train + kValidNodes, trained); ++i) {
    split[i] = i < train ? 0 : 1;
  }
  for (const std::int64_t node : test_index) split[node] = 2;
  session.splits(split, 1);
}

}  // namespace

void import_planetoid(ImportSession& session) {
  const std::string prefix = find_prefix(session.source());
  const std::string name = fs::path(prefix).filename().string();
  session.set_name(name.starts_with("ind.") ? name.substr(4) : name);
  const Pickle allx_file(prefix + ".allx"), tx_file(prefix + ".tx");
  const Pickle ally_file(prefix + ".ally"), ty_file(prefix + ".ty"), y_file(prefix + ".y");
  const PickledMatrix allx = read_matrix(allx_file), tx = read_matrix(tx_file);
  const PickledMatrix ally = read_matrix(ally_file), ty = read_matrix(ty_file);
  const PickledMatrix y = read_matrix(y_file);
  const std::vector<std::int64_t> test_index = read_test_index(prefix + ".test.index");
  const auto tests = static_cast<std::int64_t>(test_index.size());
  expect_rows(tx_file, tx, tests, allx.columns);
  expect_rows(ally_file, ally, allx.rows, ally.columns);
  expect_rows(ty_file, ty, tests, ally.columns);
  if (y.rows > allx.rows || y.columns != ally.columns) {
    fail_input("{}: {} x {} found, at most {} x {} expected", y_file.file(), y.rows, y.columns,
               allx.rows, ally.columns);
  }
  const NodeRows rows = assign_rows(allx.rows, test_index, prefix);
  write_planetoid_graph(session, prefix, rows.nodes());
  write_planetoid_features(session, allx, tx, rows, prefix);
  write_labels(session, ally_file, ty_file, ally, ty, rows);
  write_planetoid_split(session, y.rows, allx.rows, test_index);
}

}  // namespace atl
