// The edges of a dataset that are predicted (docs/formats.md): links_train.npy, links_valid.npy and
// links_test.npy, each [m, 2], and the pairs that validation and test edges are ranked against.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>

#include "base/json.hpp"
#include "base/npy.hpp"

namespace atl {

inline constexpr const char* kLinkFiles[] = {"links_train.npy", "links_valid.npy",
                                             "links_test.npy"};
inline constexpr const char* kLinkNegativeFiles[] = {"links_valid_negatives.npy",
                                                     "links_test_negatives.npy"};

// A mapped matrix of node ids, int32 or int64 [rows, columns].
class NodeIdMatrix {
 public:
  explicit NodeIdMatrix(const std::filesystem::path& path);

  std::int64_t rows() const { return file_.rows(); }
  std::int64_t columns() const { return file_.columns(); }
  const std::filesystem::path& path() const { return file_.path(); }
  std::int64_t at(std::int64_t row, std::int64_t column) const {
    const std::int64_t k = row * columns() + column;
    return wide_.empty() ? narrow_[k] : wide_[k];
  }
  // Throws Error{kInput} naming row, column and value unless all ids are below `nodes`.
  void check(std::int64_t nodes) const;

 private:
  NpyFile file_;
  std::span<const std::int64_t> wide_;
  std::span<const std::int32_t> narrow_;
};

// What validation or test edges are ranked against.
struct LinkNegatives {
  NodeIdMatrix ids;

  // Pairs [n, 2] that all edges share; else row i holds other ends for the first end of edge i.
  bool shared() const { return ids.columns() == 2; }
};

struct Links {
  std::array<std::optional<NodeIdMatrix>, 3> edges;       // train, valid, test
  std::array<std::optional<LinkNegatives>, 2> negatives;  // valid, test; none: drawn

  // Empty if the folder has no links_train.npy, and then it must have no other file of links.
  // Throws Error{kInput} for wrong types and shapes.
  static Links open(const std::filesystem::path& folder);

  bool there() const { return edges[0].has_value(); }
  std::array<std::int64_t, 3> counts() const;
  // All ids are nodes, and there are edges to train on and to validate by.
  void check(std::int64_t nodes) const;
};

}  // namespace atl
