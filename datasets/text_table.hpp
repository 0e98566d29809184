// Values of nodes as text: labels.csv, features.csv, train_mask.csv, ... A row per node, which is
// the one of its id column or the next one in order. Internal to datasets/.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "datasets/array_reader.hpp"
#include "datasets/node_ids.hpp"
#include "datasets/text_reader.hpp"

namespace atl {

// The meaning of a table's rows, and what may be in them.
enum class TableKind : std::uint8_t {
  kFeatures,  // columns of text are passed over with a warning; every node has a row
  kLabels,    // words are classes in alphabetical order; nodes without a row have no label
  kTypes,     // the same, but every node has a row
  kMasks,     // nodes without a row are not in the set
  kSplit,     // nodes without a row are in no set
  kIds        // a list of nodes, one per line
};

struct TableColumns {
  std::string id;     // name, number from 1, "none", or "": found by itself
  std::string label;  // of kLabels: name or number
};

class TextTable {
 public:
  // Reads the file to find out what its columns are, and says what it took for ids. Throws
  // Error{kInput} naming file and line, Error{kOption} if a column that `columns` name is not there
  // (for the label; an id may be in some tables only).
  TextTable(std::filesystem::path path, TableKind kind, const TableColumns& columns);

  // Rows; or, if there are ids that are numbers, at least the largest + 1. A list of nodes: 0.
  std::int64_t least_nodes() const { return least_nodes_; }
  bool in_order() const { return kind_ != TableKind::kIds && !id_column_; }
  std::int64_t rows() const { return rows_; }
  // Adds all ids of nodes in it.
  void collect(NodeIds& ids) const;
  // The names of the classes if they are words.
  const std::vector<std::string>& words() const { return words_; }

  // [nodes] or [nodes, columns]: '<f4' of features; else booleans, integers or, where there are
  // fractions, '<f8'. A list of nodes: their numbers. nodes = -1: least_nodes(). `ids` may be null.
  ArrayReader open(const NodeIds* ids, std::int64_t nodes) const;

 private:
  struct Found {  // in one column
    bool words = false;
    bool numbers = false;
    bool fractions = false;  // numbers with a point or an exponent
    bool truths = false;
    bool only_truths = true;
    bool minus_one = false;
    bool negative = false;
    bool missing = false;
    std::int64_t largest = -1;  // of whole numbers
    std::string first_word;
    std::int64_t line_of_word = 0;
  };

  void find_columns(const TableColumns& columns);
  bool numbers_stand_below(const std::vector<std::string>& first,
                           const std::vector<std::string>& lines) const;
  void look_at_cells();
  void choose_id(const TableColumns& columns, const std::vector<std::string>& names);
  void choose_values(const TableColumns& columns, const std::vector<std::string>& names);
  void collect_words();
  bool may_be_words() const {
    return kind_ == TableKind::kLabels || kind_ == TableKind::kTypes || kind_ == TableKind::kIds;
  }
  bool passes_over(std::string_view line, bool above) const;
  template <typename Visit>
  void each_row(const Visit& visit) const;
  double value_of(std::string_view cell, const LineReader& reader, std::size_t column) const;
  std::int64_t node_of(std::string_view id, const LineReader& reader, const NodeIds* ids,
                       std::int64_t nodes) const;
  std::vector<double> read_values(const NodeIds* ids, std::int64_t nodes) const;

  std::filesystem::path path_;
  TableKind kind_;
  bool header_ = false;
  bool words_above_ = false;       // the first row is words, and was not taken for names of columns
  bool places_are_known_ = false;  // whether rows are in order
  Separator separator_ = Separator::kBlankOrComma;
  std::size_t width_ = 0;
  std::vector<Found> found_;
  std::int64_t rows_ = 0;
  std::int64_t least_nodes_ = 0;
  bool first_is_distinct_ = false;  // no value of the first column occurs twice
  std::optional<std::size_t> id_column_;
  std::vector<std::size_t> value_columns_;
  std::vector<std::string> words_;
};

}  // namespace atl
