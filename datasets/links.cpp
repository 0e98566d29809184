#include "datasets/links.hpp"

#include <fmt/ranges.h>

#include <cctype>
#include <string_view>

#include "base/files.hpp"
#include "datasets/graph_builder.hpp"
#include "datasets/text_reader.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

// The file of a list that a dataset has as `name`; empty: there is none.
fs::path file_of(const fs::path& folder, const char* name, LinkText text) {
  std::vector<fs::path> found;
  if (is_there(folder / name)) found.push_back(folder / name);
  if (text == LinkText::kRead) {
    for (const char* extension : {".txt", ".csv", ".tsv", ".txt.gz", ".csv.gz", ".tsv.gz"}) {
      const fs::path path = folder / (fs::path(name).stem().string() + extension);
      if (is_there(path)) found.push_back(path);
    }
  }
  if (found.size() > 1) {
    fail_input("{}: is there beside {}; keep one of them", found[0].string(),
               found[1].filename().string());
  }
  return found.empty() ? fs::path() : found[0];
}

}  // namespace

NodeIdMatrix::NodeIdMatrix(const fs::path& path) : path_(path) {
  if (path.extension() != ".npy") {
    read_text();
    return;
  }
  file_ = NpyFile(path);
  file_.require_shape(std::vector<std::int64_t>{-1, -1});
  rows_ = file_.rows();
  columns_ = file_.columns();
  if (file_.is("<i8")) {
    wide_ = file_.values<std::int64_t>();
  } else if (file_.is("<i4")) {
    narrow_ = file_.values<std::int32_t>();
  } else {
    fail_input("{}: element type '{}' found, '<i4' or '<i8' expected", path.string(),
               file_.header().descr);
  }
}

void NodeIdMatrix::read_text() {
  LineReader reader(path_);
  std::string_view line;
  bool first = true;
  while (reader.next(line)) {
    if (is_comment(line)) continue;
    const bool names_columns =
        first && std::isdigit(static_cast<unsigned char>(line[line.find_first_not_of(" \t")])) == 0;
    first = false;
    if (names_columns) continue;
    FieldReader fields(line, reader);
    std::int64_t count = 0;
    for (; !fields.done() && (rows_ == 0 || count < columns_); ++count) {
      read_.push_back(fields.integer(0, kMaxNodes - 1, "node id"));
    }
    if (rows_ == 0) columns_ = count;
    if (count != columns_ || !fields.done()) {
      fail_input("{}: line {}: {} node ids; the lines before it have {}", reader.file(),
                 reader.line_number(),
                 fields.done() ? std::to_string(count) : fmt::format("more than {}", count),
                 columns_);
    }
    ++rows_;
  }
  if (rows_ == 0) columns_ = 2;
  wide_ = read_;
}

void NodeIdMatrix::check(std::int64_t nodes) const {
  for (std::int64_t i = 0; i < rows(); ++i) {
    for (std::int64_t j = 0; j < columns(); ++j) {
      const std::int64_t id = at(i, j);
      if (id >= 0 && id < nodes) continue;
      fail_input("{}: row {}, column {} is {}; allowed are node ids 0 to {}", path().string(), i, j,
                 id, nodes - 1);
    }
  }
}

Links Links::open(const fs::path& folder, LinkText text) {
  Links links;
  if (file_of(folder, kLinkFiles[0], text).empty()) {
    for (const char* name :
         {kLinkFiles[1], kLinkFiles[2], kLinkNegativeFiles[0], kLinkNegativeFiles[1]}) {
      const fs::path path = file_of(folder, name, text);
      if (path.empty()) continue;
      fail_input("{}: is there without {}, the edges to train on", path.string(), kLinkFiles[0]);
    }
    return links;
  }
  for (std::size_t s = 0; s < links.edges.size(); ++s) {
    const fs::path path = file_of(folder, kLinkFiles[s], text);
    if (path.empty()) {
      fail_input("{}: is missing; a dataset with links has {}", (folder / kLinkFiles[s]).string(),
                 fmt::join(kLinkFiles, ", "));
    }
    const NodeIdMatrix& edges = links.edges[s].emplace(path);
    if (edges.columns() != 2) {
      fail_input("{}: {} columns; allowed are 2, the ends of an edge", path.string(),
                 edges.columns());
    }
  }
  for (std::size_t s = 0; s < links.negatives.size(); ++s) {
    const fs::path path = file_of(folder, kLinkNegativeFiles[s], text);
    if (path.empty()) continue;
    const LinkNegatives& negatives = links.negatives[s].emplace(LinkNegatives{NodeIdMatrix(path)});
    const std::int64_t edges = links.edges[s + 1]->rows();
    if (negatives.shared() || (negatives.ids.rows() == edges && negatives.ids.columns() > 0))
      continue;
    fail_input("{}: shape ({}, {}); allowed are ({}, k), k ends for each edge of {}, or (n, 2)",
               path.string(), negatives.ids.rows(), negatives.ids.columns(), edges,
               kLinkFiles[s + 1]);
  }
  return links;
}

std::array<std::int64_t, 3> Links::counts() const {
  std::array<std::int64_t, 3> counts{};
  for (std::size_t s = 0; s < counts.size(); ++s) counts[s] = edges[s] ? edges[s]->rows() : 0;
  return counts;
}

void Links::check(std::int64_t nodes) const {
  for (const auto& matrix : edges) {
    if (matrix) matrix->check(nodes);
  }
  for (const auto& set : negatives) {
    if (set) set->ids.check(nodes);
  }
  for (const std::size_t s : {0, 1}) {
    if (there() && edges[s]->rows() == 0) {
      fail_input("{}: holds no edge; at least 1 is needed", edges[s]->path().string());
    }
  }
}

}  // namespace atl
