// The edges of a dataset that are predicted (docs/formats.md): links_train.npy, links_valid.npy and
// links_test.npy, each [m, 2], and the pairs that validation and test edges are ranked against.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/json.hpp"
#include "base/npy.hpp"

namespace atl {

inline constexpr const char* kLinkFiles[] = {"links_train.npy", "links_valid.npy",
                                             "links_test.npy"};
inline constexpr const char* kLinkNegativeFiles[] = {"links_valid_negatives.npy",
                                                     "links_test_negatives.npy"};

// A matrix of node ids: a mapped .npy file, int32 or int64 [rows, columns], or what a text file
// lists, a row per line.
class NodeIdMatrix {
 public:
  // By the name of the file. Throws Error{kInput} naming the file, and, of text, line and column.
  explicit NodeIdMatrix(const std::filesystem::path& path);
  NodeIdMatrix(NodeIdMatrix&&) = default;
  NodeIdMatrix& operator=(NodeIdMatrix&&) = default;
  // `wide_` lies in `read_`.
  NodeIdMatrix(const NodeIdMatrix&) = delete;
  NodeIdMatrix& operator=(const NodeIdMatrix&) = delete;
  ~NodeIdMatrix() = default;

  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  const std::filesystem::path& path() const { return path_; }
  std::int64_t at(std::int64_t row, std::int64_t column) const {
    const std::int64_t k = row * columns() + column;
    return wide_.empty() ? narrow_[k] : wide_[k];
  }
  // Throws Error{kInput} naming row, column and value unless all ids are below `nodes`.
  void check(std::int64_t nodes) const;

 private:
  void read_text();

  std::filesystem::path path_;
  std::int64_t rows_ = 0;
  std::int64_t columns_ = 0;
  NpyFile file_;
  std::vector<std::int64_t> read_;
  std::span<const std::int64_t> wide_;
  std::span<const std::int32_t> narrow_;
};

// Node pairs that validation or test edges are ranked against.
struct LinkNegatives {
  NodeIdMatrix ids;

  // Pairs [n, 2] that all edges share; else row i holds other ends for the first end of edge i.
  bool shared() const { return ids.columns() == 2; }
};

// Whether links may also be text files, as links_train.csv: in what is imported, not in datasets.
enum class LinkText : std::uint8_t { kRefused, kRead };

struct Links {
  std::array<std::optional<NodeIdMatrix>, 3> edges;       // train, valid, test
  std::array<std::optional<LinkNegatives>, 2> negatives;  // valid, test; none: drawn

  // Empty if the folder has no links_train.npy, and then it must have no other file of links.
  // Text files are called as those of arrays, but .txt, .csv or .tsv, and .gz behind it. Throws
  // Error{kInput} for wrong types and shapes, and if a list is there twice.
  static Links open(const std::filesystem::path& folder, LinkText text = LinkText::kRefused);

  bool there() const { return edges[0].has_value(); }
  std::array<std::int64_t, 3> counts() const;
  // All ids are nodes, and there are edges to train on and to validate by.
  void check(std::int64_t nodes) const;
};

}  // namespace atl
