#include "engine/program/shard_columns.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <utility>

#include "base/error.hpp"
#include "engine/exchange/rank_map.hpp"
#include "engine/program/operations/rules.hpp"

namespace atl {

namespace {

// Along edges, or of what goes along them.
bool reads_neighbours(const Operation& op) {
  return op.needs_messages() || op.rule->part != Part::kNone;
}

template <std::size_t kCount>
bool is_one_of(const Operation& op, const std::array<const Rule*, kCount>& rules) {
  return std::ranges::find(rules, op.rule) != rules.end();
}

// Whether each of its columns depends on that column of what it reads, and on nothing of the graph
// but edges and their features.
bool works_by_columns(const Operation& op) {
  constexpr std::array kRules = {&rules::kAggregate,     &rules::kAggregateRelations,
                                 &rules::kRelationsHalo, &rules::kRelationsSources,
                                 &rules::kPool,          &rules::kPoolTargets,
                                 &rules::kPoolSlope,     &rules::kPoolHalo,
                                 &rules::kPoolSources,   &rules::kAggregateEdges,
                                 &rules::kEdgesHalo,     &rules::kEdgesSources,
                                 &rules::kEdgesTerms};
  return is_one_of(op, kRules);
}

// The same of the columns of each head.
bool works_by_heads(const Operation& op) {
  constexpr std::array kRules = {
      &rules::kAttend,           &rules::kCoefficients,  &rules::kAttendTargets,
      &rules::kAttendHalo,       &rules::kAttendSources, &rules::kHeadDots,
      &rules::kHeadDotsBackward, &rules::kEdgeScores,    &rules::kEdgeScoresGradient};
  return is_one_of(op, kRules);
}

class Sharding {
 public:
  Sharding(Program& program, ColumnShare share)
      : program_(program),
        share_(share),
        readers_(readers_of(program)),
        by_columns_(program.operations.size(), false),
        heads_(program.operations.size(), 0),
        rows_(program.operations.size(), kNoValue) {}

  void run() {
    for (Value v = 0; v < program_.size(); ++v) {
      check(v);
      choose(v);
    }
    choose_sums();
    std::vector<Operation> before = std::move(program_.operations);
    program_.operations.clear();
    for (Value v = 0; v < static_cast<Value>(before.size()); ++v) {
      if (by_columns_[index(v)]) {
        write_by_columns(v, std::move(before[index(v)]));
      } else {
        write_by_rows(v, std::move(before[index(v)]));
      }
    }
    for_each_named(program_, [&](Value& value) {
      value = rows_[index(value)] != kNoValue ? rows_[index(value)]
                                              : columns_.at({value, heads_[index(value)]});
    });
  }

 private:
  static std::size_t index(Value v) { return static_cast<std::size_t>(v); }

  void check(Value v) const {
    const Operation& op = program_.at(v);
    const bool may_be_sliced = reads_neighbours(op) || works_by_heads(op);
    ATOLL_ASSERT(op.decided == Decisions{} && (op.tail.absent() || !may_be_sliced),
                 "{} is fused already", op.rule->name);
    const int layer = program_.scope_of(v).layer;
    const bool reads_edges =
        op.reads(GraphData::kEdgeFeatures) || op.reads(GraphData::kMeanEdgeFeatures);
    const bool reads_graph = reads_neighbours(op) || reads_edges;
    if (reads_graph && !works_by_columns(op) && !works_by_heads(op)) {
      fail_option(
          "--group-ranks {}: layer {} of the model needs more of the graph than edges and a slice "
          "of its rows ('{}'); allowed are models without it, or --group-ranks 1",
          share_.ranks, layer, op.rule->name);
    }
  }

  // Heads of attention whose columns it works on; 0: it is none.
  std::int64_t heads_of(const Operation& op) const {
    if (!works_by_heads(op)) return 0;
    const auto* options = std::get_if<AttentionOptions>(&op.attributes);
    return options != nullptr ? options->heads
                              : program_.parameters[static_cast<std::size_t>(op.parameter)].rows;
  }

  // Sums have a choice, but for those of heads.
  void choose(Value v) {
    const Operation& op = program_.at(v);
    by_columns_[index(v)] = reads_neighbours(op) || works_by_heads(op);
    heads_[index(v)] = heads_of(op);
    if (!is_sum(v)) return;
    const std::int64_t heads = heads_[index(op.inputs[0])];
    const bool all =
        std::ranges::all_of(op.inputs, [&](Value input) { return heads_[index(input)] == heads; });
    by_columns_[index(v)] = heads > 0 && all;
    heads_[index(v)] = all ? heads : 0;
  }

  bool is_sum(Value v) const {
    const Operation& op = program_.at(v);
    return op.is(rules::kCombine) && op.tail.absent() && op.rows_of() == RowsOf::kNodes;
  }
  // True if it may be computed by columns as well as by rows.
  bool is_free(Value v) const {
    return is_sum(v) && std::ranges::all_of(program_.at(v).inputs,
                                            [&](Value input) { return heads_[index(input)] == 0; });
  }

  // The ways, by heads, in which readers want its columns.
  std::vector<std::int64_t> slices_read(Value v) const {
    std::vector<std::int64_t> ways;
    for (const Value reader : readers_[index(v)]) {
      const std::int64_t heads = heads_[index(reader)];
      if (!by_columns_[index(reader)] || std::ranges::find(ways, heads) != ways.end()) continue;
      ways.push_back(heads);
    }
    return ways;
  }
  // Columns that are divided in one way become rows before they are divided in another.
  bool is_read_by_rows(Value v) const {
    if (v == program_.logits || std::ranges::find(program_.outputs, v) != program_.outputs.end()) {
      return true;
    }
    return std::ranges::any_of(readers_[index(v)], [&](Value reader) {
      return !by_columns_[index(reader)] || heads_[index(reader)] != heads_[index(v)];
    });
  }

  // Columns of all values that are converted.
  std::int64_t cost() const {
    std::int64_t sum = 0;
    for (Value v = 0; v < program_.size(); ++v) {
      const std::vector<std::int64_t> ways = slices_read(v);
      std::int64_t conversions = std::ssize(ways);
      if (by_columns_[index(v)]) {
        conversions -= std::ranges::count(ways, heads_[index(v)]);
        conversions += is_read_by_rows(v) ? 1 : 0;
      }
      sum += conversions * program_.at(v).columns;
    }
    return sum;
  }

  // Changes one sum after another as long as that makes it cheaper; returns the cost.
  std::int64_t improve(const std::vector<Value>& sums) {
    std::int64_t least = cost();
    for (bool improves = true; improves;) {
      improves = false;
      for (const Value v : sums) {
        by_columns_[index(v)] = !by_columns_[index(v)];
        const std::int64_t changed = cost();
        if (changed < least) {
          least = changed;
          improves = true;
        } else {
          by_columns_[index(v)] = !by_columns_[index(v)];
        }
      }
    }
    return least;
  }

  void choose_sums() {
    std::vector<Value> sums;
    for (Value v = 0; v < program_.size(); ++v) {
      if (is_free(v)) sums.push_back(v);
    }
    std::vector<bool> best;
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (const bool start : {false, true}) {
      for (const Value v : sums) by_columns_[index(v)] = start;
      const std::int64_t found = improve(sums);
      if (found >= least) continue;
      least = found;
      best = by_columns_;
    }
    by_columns_ = best;
  }

  // This rank's columns, of those of one matrix of a value that is divided so, and of all.
  ColumnRange own_slice(std::int64_t columns, const Slices& slices) const {
    return column_slice(columns / slices.matrices, share_.role, share_.ranks, slices.unit);
  }
  std::int64_t own_columns(std::int64_t columns, const Slices& slices) const {
    return slices.matrices * own_slice(columns, slices).count;
  }
  // Those of a value that `reader` reads, or that it is itself.
  static Slices slices_of(const Operation& value, const Operation& reader, std::int64_t heads) {
    Slices slices;
    if (heads > 0) slices.unit = value.columns / heads;
    const auto* relations = std::get_if<Relations>(&reader.attributes);
    if (relations == nullptr || !value.packed) return slices;
    slices.matrices = relations->count;
    slices.packed = true;
    return slices;
  }

  void write_by_columns(Value v, Operation op) {
    const std::int64_t heads = heads_[index(v)];
    const Slices slices = slices_of(op, op, heads);
    Operation to_rows{.rule = &rules::kToRows,
                      .columns = op.columns,
                      .scope = op.scope,
                      .constant = op.constant,
                      .attributes = slices,
                      .packed = op.packed,
                      .wide = op.wide};
    take_parameters(op, own_slice(op.columns, slices));
    op.columns = own_columns(op.columns, slices);
    for (Value& input : op.inputs) input = in_columns(input, op, heads);
    if (op.rows_of() == RowsOf::kNodes) op.rows = RowsOf::kPart;
    if (works_by_heads(op)) take_heads(op, heads);
    columns_[{v, heads}] = program_.append_unchanged(std::move(op));
    if (!is_read_by_rows(v)) return;
    to_rows.inputs = {columns_.at({v, heads})};
    rows_[index(v)] = program_.append_unchanged(std::move(to_rows));
  }

  // Gradients of what it reads are summed over all ranks: each adds those of its own columns.
  static void take_parameters(Operation& op, ColumnRange own) {
    if (op.parameter < 0 && op.second_parameter < 0) return;
    op.first_column = own.first;
    op.columns_read = own.count;
  }

  void take_heads(Operation& op, std::int64_t heads) const {
    const ColumnRange own = column_slice(heads, share_.role, share_.ranks, /*unit=*/1);
    if (auto* options = std::get_if<AttentionOptions>(&op.attributes)) {
      options->heads = static_cast<int>(own.count);
    }
    op.first_head = own.first;
    op.heads_read = own.count;
  }

  void write_by_rows(Value v, Operation op) {
    for_each_read(op, [&](Value& read) { read = rows_[index(read)]; });
    rows_[index(v)] = program_.append_unchanged(std::move(op));
  }

  // The value of the program as it was, in columns; converted, where it must be, for `reader`,
  // which works on those of so many heads.
  Value in_columns(Value v, const Operation& reader, std::int64_t heads) {
    if (const auto found = columns_.find({v, heads}); found != columns_.end()) {
      return found->second;
    }
    const Operation& rows = program_.at(rows_[index(v)]);
    if (!rows.has_rows()) return rows_[index(v)];  // a parameter
    const Slices slices = slices_of(rows, reader, heads);
    Operation to_columns{.rule = &rules::kToColumns,
                         .inputs = {rows_[index(v)]},
                         .columns = own_columns(rows.columns, slices),
                         .scope = reader.scope,
                         .constant = rows.constant,
                         .attributes = slices,
                         .packed = slices.packed,
                         .wide = rows.wide};
    return columns_[{v, heads}] = program_.append_unchanged(std::move(to_columns));
  }

  Program& program_;
  ColumnShare share_;
  // All by value as it was.
  std::vector<std::vector<Value>> readers_;
  std::vector<bool> by_columns_;
  std::vector<std::int64_t> heads_;  // whose columns a slice has whole; 0: they don't matter
  std::vector<Value> rows_;          // the value that holds it in rows; kNoValue: none does
  std::map<std::pair<Value, std::int64_t>, Value> columns_;  // in columns, also by heads
};

}  // namespace

void shard_columns(Program& program, ColumnShare share) {
  if (share.any()) Sharding(program, share).run();
}

}  // namespace atl
