// The edges of a chain of deltas: the rows of the base with the entries that the deltas set and
// without those that they remove. Internal to datasets/.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "datasets/dataset.hpp"
#include "datasets/delta.hpp"
#include "datasets/grown_array.hpp"

namespace atl {

// Only rows with changed entries are looked at one by one; what lies between them is copied at
// once.
class EdgeMerge {
 public:
  // Makes the arrays, so that their places are known, and fills them if `edges`, how many entries
  // they will have, is not. `chain` must outlive it.
  EdgeMerge(const Chain& chain, Dataset base, std::optional<std::int64_t> edges, WholeFiles& files);

  // Fills the arrays, unless they are. Throws Error{kInput} if `edges` was wrong.
  void run();

 private:
  // An entry of a row that a delta sets or removes.
  struct Change {
    std::int32_t column;
    std::uint16_t type;
    bool removed;
    bool there;  // in the base
    std::uint32_t delta;
    std::int64_t entry;   // of the delta's arrays
    std::int64_t before;  // entries of the base up to it

    auto key() const { return std::tuple(column, type, delta, !removed); }
    bool same_edge(const Change& other) const {
      return column == other.column && type == other.type;
    }
  };
  struct Row {
    std::int64_t row;
    std::int64_t begin, end;  // of changes_
    std::int64_t length = 0;
  };

  struct Values {
    std::span<const float> weights, features;
  };

  void make_arrays(WholeFiles& files);
  [[noreturn]] void refuse(std::int64_t stated, const std::string& found) const;
  std::int64_t changes() const;  // entries that deltas list
  template <typename Visit>
  void each_change(const Visit& visit) const;
  void check_values();
  void collect_changes();
  std::int64_t old_nodes() const { return base_.nodes(); }
  std::int64_t old_begin(std::int64_t row) const;
  void settle(Row& row);
  std::int64_t lower_bound(std::int64_t begin, std::int64_t end, const Change& change) const;
  std::int64_t find_rows();
  void copy_run(std::int64_t from, std::int64_t count, std::int64_t to);
  void set_entry(const Change& change, std::int64_t to);
  void fill(std::int64_t begin, std::int64_t end);

  const Chain& chain_;
  std::optional<Dataset> dataset_;  // the base, until it is merged
  GraphView base_;
  const std::int64_t nodes_;
  std::int64_t edges_ = 0;
  bool is_planned_ = false;  // changes_ and rows_ are there
  std::once_flag done_;
  bool weighted_ = false;
  bool typed_ = false;
  std::int64_t columns_ = 0;                  // of features of edges
  std::vector<Values> sources_;               // by delta
  std::unique_ptr<Change[]> changes_memory_;  // which no one clears first
  std::span<Change> changes_;                 // by row
  std::vector<Row> rows_;                     // those with changes, ascending
  GrownArray row_ptr_, col_idx_, weights_, types_, features_;
};

}  // namespace atl
