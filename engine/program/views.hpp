// How an operation becomes kernels: its rule reads views of its values and of the rank's graph, and
// asks for kernel operations. Requests are run (network.cpp), or counted (work.cpp) on views of
// null data, whose shapes are all that counting needs.
#pragma once

#include <span>

#include "engine/program/allocate.hpp"
#include "engine/program/degree_factors.hpp"
#include "engine/program/node_type_rows.hpp"
#include "kernels/operations/list.hpp"

namespace atl {

// The counts that a rank's work depends on.
struct RankShape {
  RankRows rows;
  std::int64_t marginal = 0;  // inner rows that other ranks need or that need theirs
  std::int64_t marginal_edges = 0;
  bool weighted = false;           // edges have weights
  std::int64_t part_marginal = 0;  // of RowsOf::kPart
  // The marginal rows in groups, in their order; empty: one.
  struct Group {
    RowRange rows;
    std::int64_t edges = 0;
  };
  std::vector<Group> groups = {};
  // By number of hops: the rows of LocalGraphView::within and their edges.
  std::vector<Group> within = {};

  // From the shape of a whole part to that of a rank whose share of it has so many rows.
  void divide(std::int64_t central_share, std::int64_t marginal_share);
  // Range of the inner rows; those of computed rows are all that have their place.
  RowRange range_of(Rows range) const;
  // The same of all rows of a part that several ranks hold, which are in no groups.
  RowRange range_of_part(Rows range) const;
  std::int64_t edges_in(Rows range) const;
  std::int64_t central() const { return rows.inner - marginal; }
  // The first edge of a row where a range of those that have edges begins or ends.
  std::int64_t first_edge(std::int64_t row) const {
    for (const Group& near : within) {
      if (row == near.rows.end) return near.edges;
    }
    std::int64_t edges_before = rows.edges - marginal_edges;
    for (const Group& group : groups) {
      if (row == group.rows.begin) return edges_before;
      edges_before += group.edges;
    }
    const std::int64_t end = rows.of_part();
    const std::int64_t first_marginal = end - (rows.part > 0 ? part_marginal : marginal);
    ATOLL_ASSERT(row == 0 || row == first_marginal || row == end, "row {}", row);
    return row == 0 ? 0 : row == end ? rows.edges : rows.edges - marginal_edges;
  }
};

// Work of a rank that is no kernel.
enum class RankWork : std::uint8_t {
  kLoss,
  kSumRanks,
  kToColumns,
  kToRows,
  kSumGradients,
  kFetchComputed,
  kZeroGradients,
  kComposedGradients,
  kStep,
};

// A kernel that is a program's own. run: asserts, or fails with a clear error, on a backend that it
// does not know.
struct OwnKernel {
  const char* name;
  SpanWork work;
  void (*run)(const Views& views, Backend& backend, Queue& queue);
};

// Takes the kernel operations that a rule asks for, in their order.
class Requests : public kernels::Receiver<kernels::KernelOperations> {
 public:
  virtual void take_work(RankWork work, const Views& views) = 0;
  virtual void take_own(const OwnKernel& kernel, const Views& views) = 0;
};
// Rule::lower of an operation that is work of a rank.
template <RankWork kWork>
void ask_for(const Views& views, Requests& requests) {
  requests.take_work(kWork, views);
}

// One batch norm in the backend's memory, [columns] each; sums [2 columns].
struct NormViews {
  std::span<double> running_mean;
  std::span<double> running_variance;
  std::span<double> mean;
  std::span<double> inverse_std;
  std::span<double> running_inverse_std;
  std::span<double> sums;
};

// Features of in-edges, and of each inner row the means over its in-edges but those from itself.
struct EdgeFeatureViews {
  std::span<const float> features;
  std::span<const float> means;
  ConstMatrixView feature_matrix;  // in the type of the parameters
  ConstMatrixView mean_matrix;
};

// Halo rows that this rank computes (ComputedHalo).
struct ComputedViews {
  std::span<const LocalId> halo_rows;  // of each computed row, in [inner, inner + halo)
  std::span<const LocalId> counting;   // 0, 1, 2, ...
  std::span<const float> factors;      // empty: 1
  std::span<const RowRange> ranges;    // of the computed rows among all, ascending
};

// A block of pairs of rows.
struct PairViews {
  ConstMatrixView rows;            // inner ones, and behind them those fetched from other ranks
  std::span<const LocalId> first;  // by pair: the row at an end
  std::span<const LocalId> second;
  std::span<const GlobalId> ids;  // of pairs, of training
  // By end, those of the first row first: its pair, and the row at the other end.
  std::span<const LocalId> pair_of = {};
  std::span<const LocalId> other_end = {};
  // Gradients of rows: sums over their ends, of which `ends` has the rows at the other ends, or, of
  // ends that have rows of their own, these, for columns.
  struct Sum {
    SparseOperator ends = {};
    bool adds = false;  // to what `gradient` holds
    MatrixView gradient = {};
  };
  Sum inner = {};
  Sum fetched = {};
};

// One call of one operation, as its rule sees it. What it gives of values are rows of the call,
// unless it says otherwise.
class Views {
 public:
  Views(const Program& program, const RankShape& shape, DType dtype)
      : program_(program), shape_(shape), dtype_(dtype) {}
  virtual ~Views() = default;
  Views(const Views&) = delete;
  Views& operator=(const Views&) = delete;
  void set_call(const Call& call) {
    call_ = call;
    range_ = range_of_call();
  }

  const Program& program() const { return program_; }
  DType dtype() const { return dtype_; }  // of values that are not wide
  DType dtype_of(Value value) const {
    return program_.at(value).wide ? parameter_dtype(dtype_) : dtype_;
  }
  const RankShape& shape() const { return shape_; }
  const RankRows& rows() const { return shape_.rows; }
  const Operation& op() const { return program_.at(call_.value); }
  Value value() const { return call_.value; }
  Rows call_rows() const { return call_.rows; }
  // The inner rows, or the pairs, of the call.
  RowRange range() const { return range_; }

  // The value that an operation reads, which of computed rows may be another one.
  Value input(std::size_t i) const {
    const Decisions& decided = op().decided;
    const bool elsewhere =
        i == 0 && call_.rows == Rows::kComputed && decided.computed_input != kNoValue;
    return elsewhere ? decided.computed_input : op().inputs[i];
  }
  MatrixView in(std::size_t i) const { return rows_of(input(i)); }
  MatrixView out() const { return rows_of(call_.value); }
  virtual MatrixView rows_of(Value value) const {
    return call_.rows == Rows::kComputed ? computed_rows(value) : whole(value).rows_in(range());
  }
  // All rows but halo rows.
  MatrixView inner(Value value) const {
    return whole(value).rows_in({0, rows().own(program_.at(value).rows_of())});
  }
  // All inner and halo rows.
  virtual MatrixView whole(Value value) const = 0;
  virtual MatrixView computed_rows(Value value) const = 0;
  // False of a copy that nothing needs: its rows are those of what is copied.
  virtual bool has_place(Value value) const = 0;

  // By parameter: its value, the same in the activations' type, and its gradient.
  virtual MatrixView parameter(int number) const = 0;
  virtual ConstMatrixView operand(int number) const = 0;
  virtual MatrixView gradient(int number) const = 0;
  // Rows of matrix k of a parameter that has several, one below the other.
  virtual RowRange block(int number, std::int64_t k) const = 0;
  // A parameter with a row per head, and its gradient, as one row: the heads that the operation
  // reads.
  ConstMatrixView row_parameter(int number) const;
  MatrixView row_gradient(int number) const;
  // A weight or bias of features of edges, and its gradient: the columns that the operation
  // reads.
  ConstMatrixView edge_parameter(int number) const;
  MatrixView edge_gradient(int number) const;
  // Rows of its weight that a product reads, or whose gradient it adds to.
  RowRange weight_range() const;

  virtual NormViews norm(int number) const = 0;
  virtual std::int64_t graph_nodes() const = 0;  // on all ranks
  virtual DropoutSpec dropout(const Activation& activation) const = 0;
  virtual AttentionDropout dropout_of_edges(const AttentionOptions& options) const = 0;
  Epilogue epilogue() const;  // of its Tail
  // Through the activation of its Tail, from what that gave or, of gelu, was given; absent without.
  ActivationGradient activation(Value from) const;

  // The operator that it multiplies with; for parts of a neighbourhood the forward operator.
  virtual SparseOperator matrix() const = 0;
  virtual SourceEdges source_edges() const = 0;
  virtual SparseOperator returned_sums() const = 0;  // HaloReturn::sums
  // RelationOperators: forward, backward and halo_backward.
  virtual SparseOperator relations(Part part) const = 0;
  virtual EdgeFeatureViews edge_features() const = 0;
  virtual const NodeTypeRows& node_types() const = 0;
  virtual ComputedViews computed() const = 0;
  virtual DegreeViews degrees(bool with_self) const = 0;
  virtual PairViews pairs() const = 0;

 private:
  RowRange range_of_call() const {
    const RowsOf rows_of = op().rows_of();
    const bool of_part = rows_of == RowsOf::kPart || (rows_of == RowsOf::kEdges && rows().part > 0);
    return rows_of == RowsOf::kPairs ? RowRange{0, rows().pairs}
           : of_part                 ? shape_.range_of_part(call_.rows)
                                     : shape_.range_of(call_.rows);
  }

  const Program& program_;
  const RankShape& shape_;
  DType dtype_;
  Call call_;
  RowRange range_;  // of the call
};

// Rule::lower of operations that are nothing but their Tail.
void lower_tail(const Views& views, Requests& requests);

// Asks for the kernels of the call that views are set to.
inline void lower(const Views& views, Requests& requests) {
  const Rule& rule = *views.op().rule;
  if (rule.lower != nullptr) rule.lower(views, requests);
}
// The same for `call`, to which it sets the views first.
inline void lower(Views& views, const Call& call, Requests& requests) {
  views.set_call(call);
  lower(views, requests);
}

}  // namespace atl
