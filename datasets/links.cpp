#include "datasets/links.hpp"

#include <fmt/ranges.h>

#include "base/files.hpp"

namespace atl {

namespace fs = std::filesystem;

NodeIdMatrix::NodeIdMatrix(const fs::path& path) : file_(path) {
  file_.require_shape(std::vector<std::int64_t>{-1, -1});
  if (file_.is("<i8")) {
    wide_ = file_.values<std::int64_t>();
  } else if (file_.is("<i4")) {
    narrow_ = file_.values<std::int32_t>();
  } else {
    fail_input("{}: element type '{}' found, '<i4' or '<i8' expected", path.string(),
               file_.header().descr);
  }
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

Links Links::open(const fs::path& folder) {
  Links links;
  if (!is_there(folder / kLinkFiles[0])) {
    for (const char* name :
         {kLinkFiles[1], kLinkFiles[2], kLinkNegativeFiles[0], kLinkNegativeFiles[1]}) {
      if (is_there(folder / name)) {
        fail_input("{}: is there without {}, the edges to train on", (folder / name).string(),
                   kLinkFiles[0]);
      }
    }
    return links;
  }
  for (std::size_t s = 0; s < links.edges.size(); ++s) {
    const fs::path path = folder / kLinkFiles[s];
    if (!is_there(path)) {
      fail_input("{}: is missing; a dataset with links has {}", path.string(),
                 fmt::join(kLinkFiles, ", "));
    }
    const NodeIdMatrix& edges = links.edges[s].emplace(path);
    if (edges.columns() != 2) {
      fail_input("{}: {} columns; allowed are 2, the ends of an edge", path.string(),
                 edges.columns());
    }
  }
  for (std::size_t s = 0; s < links.negatives.size(); ++s) {
    const fs::path path = folder / kLinkNegativeFiles[s];
    if (!is_there(path)) continue;
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
