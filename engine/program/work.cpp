#include "engine/program/work.hpp"

#include <algorithm>
#include <optional>

#include "engine/program/operations/rules.hpp"

namespace atl {

namespace {

// Lengths alone: nothing of it is read.
template <typename T>
std::span<T> counted(std::int64_t length) {
  return {static_cast<T*>(nullptr), static_cast<std::size_t>(length)};
}

MatrixView counted(std::int64_t rows, std::int64_t columns, DType dtype) {
  return {nullptr, rows, columns, columns, dtype};
}

// A rank of which only the shape is known. How many edges leave which halo row is not: they are
// taken to be spread evenly over sources.
class CountedViews final : public Views {
 public:
  CountedViews(const Program& program, const RankShape& shape, DType dtype)
      : Views(program, shape, dtype),
        placed_{shape.rows.inner, shape.rows.inner + shape.rows.computed} {}

  MatrixView whole(Value value) const override {
    const Operation& op = program().at(value);
    const bool returns = op.rows_of() == RowsOf::kHalo;
    const std::int64_t others =
        returns ? rows().returned : std::max(rows().forward_halo, rows().computed);
    return counted(rows().own(op.rows_of()) + others, op.columns, dtype_of(value));
  }
  MatrixView computed_rows(Value value) const override {
    return counted(rows().computed, program().at(value).columns, dtype_of(value));
  }
  // There are no others to choose them from.
  MatrixView rows_of(Value value) const override {
    return call_rows() == Rows::kComputed
               ? computed_rows(value)
               : counted(range().size(), program().at(value).columns, dtype_of(value));
  }
  bool has_place(Value value) const override {
    return rows().forward_halo > 0 || !program().at(value).is(rules::kCopy);
  }

  MatrixView parameter(int number) const override {
    const DeclaredParameter& p = declared(number);
    return counted(p.per_node ? rows().inner : p.rows, p.columns, parameter_dtype(dtype()));
  }
  ConstMatrixView operand(int number) const override {
    MatrixView view = parameter(number);
    view.dtype = dtype();
    return view;
  }
  MatrixView gradient(int number) const override { return parameter(number); }
  RowRange block(int number, std::int64_t k) const override { return declared(number).block(k); }

  NormViews norm(int number) const override {
    const std::int64_t columns = program().norms[static_cast<std::size_t>(number)].columns;
    const auto one = counted<double>(columns);
    return {one, one, one, one, one, counted<double>(2 * columns)};
  }
  std::int64_t graph_nodes() const override { return rows().inner; }
  DropoutSpec dropout(const Activation& /*activation*/) const override { return {}; }
  AttentionDropout dropout_of_edges(const AttentionOptions& /*options*/) const override {
    return {};
  }

  SparseOperator matrix() const override {
    const Messages& messages = op().messages;
    SparseOperator matrix = edges_of_call(rows().inner);
    // Parts of a neighbourhood go along forward edges and read no factors.
    if (op().rule->part != Part::kNone) return matrix;
    matrix.cols = rows().inner + rows().halo(messages.direction);
    const Normalisation by = messages.normalisation;
    // The mean's factors belong to its rows; to columns where it is transposed.
    const bool forward = messages.direction == Direction::kForward;
    if (forward ? has_row_factors(by) : has_column_factors(by)) {
      matrix.row_scale = counted<const float>(matrix.rows);
    }
    if (forward ? has_column_factors(by) : has_row_factors(by)) {
      matrix.col_scale = counted<const float>(matrix.cols);
    }
    if (adds_self(by)) matrix.self_weight = counted<const float>(matrix.rows);
    if (shape().weighted) matrix.values = counted<const float>(rows().edges);
    return matrix;
  }
  SourceEdges source_edges() const override {
    return {counted<const std::int64_t>(rows().inner + rows().forward_halo + 1),
            counted<const std::int32_t>(rows().edges), counted<const std::int64_t>(rows().edges)};
  }
  SparseOperator returned_sums() const override {
    SparseOperator sums = edges_of_call(rows().inner);
    sums.cols = rows().forward_halo + rows().returned;
    sums.counted_edges = rows().returned;
    return sums;
  }
  SparseOperator relations(Part part) const override {
    const std::int64_t count = op().as<Relations>().count;
    SparseOperator matrix = edges_of_call(rows().inner);
    matrix.values = counted<const float>(rows().edges);
    if (part == Part::kForward) {
      matrix.rows *= count;
      return matrix;
    }
    const auto share = [&](std::int64_t of) {
      const std::int64_t sources = rows().inner + rows().forward_halo;
      return sources == 0 ? 0 : rows().edges * of / sources;
    };
    matrix.cols = rows().inner * count;
    const bool to_halo = part == Part::kHalo;
    if (to_halo) matrix.rows = rows().forward_halo;
    matrix.counted_edges = share(to_halo ? rows().forward_halo : range().size());
    return matrix;
  }
  EdgeFeatureViews edge_features() const override {
    const std::int64_t columns = feature_columns();
    const DType wide = parameter_dtype(dtype());
    return {counted<const float>(rows().edges * columns),
            counted<const float>(rows().of_part() * columns), counted(rows().edges, columns, wide),
            counted(rows().of_part(), columns, wide)};
  }
  // As far as is known, types have equally many nodes.
  const NodeTypeRows& node_types() const override {
    const int weight = op().parameter;
    types_ = NodeTypeRows::evenly(weight < 0 ? 0 : declared(weight).stacked, rows().inner);
    return *types_;
  }
  ComputedViews computed() const override {
    const auto list = counted<const LocalId>(rows().computed);
    return {list, list, {}, std::span(&placed_, 1)};
  }
  DegreeViews degrees(bool /*with_self*/) const override {
    const auto factors = counted<const float>(rows().inner);
    return {counted<const LocalId>(rows().inner), factors, factors};
  }
  // All ends are those of inner rows, and each of these has as many.
  PairViews pairs() const override {
    const std::int64_t columns = program().at(program().embeddings).columns;
    const MatrixView of_rows = counted(rows().inner, columns, dtype());
    const auto ends = counted<const LocalId>(rows().own(RowsOf::kEnds));
    SparseOperator sum;
    sum.rows = rows().inner;
    sum.row_ptr = counted<const std::int64_t>(sum.rows + 1);
    sum.col_idx = counted<const std::int32_t>(kernels::length(ends));
    sum.counted_edges = kernels::length(ends);
    const auto each = counted<const LocalId>(rows().pairs);
    return {of_rows, each, each, {}, ends, ends, {sum, /*adds=*/true, of_rows}, {}};
  }

 private:
  const DeclaredParameter& declared(int number) const {
    return program().parameters[static_cast<std::size_t>(number)];
  }
  // Forward edges of the rows of the call.
  SparseOperator edges_of_call(std::int64_t of_rows) const {
    SparseOperator matrix;
    matrix.rows = of_rows;
    matrix.cols = rows().inner + rows().forward_halo;
    matrix.col_idx = counted<const std::int32_t>(rows().edges);
    matrix.counted_edges = shape().edges_in(call_rows());
    return matrix;
  }
  // The weight that multiplies them says how many there are.
  std::int64_t feature_columns() const {
    const auto* options = std::get_if<AttentionOptions>(&op().attributes);
    const bool second = options != nullptr && op().second_parameter >= 0;
    return declared(second ? op().second_parameter : op().parameter).rows;
  }

  RowRange placed_;
  mutable std::optional<NodeTypeRows> types_;  // few operations read them
};

class Counter final : public kernels::TakesEach<Counter, Requests> {
 public:
  template <typename Kernel>
  void each(const Kernel& kernel) {
    add(kernel.work(/*host_readable=*/false));
  }
  void take_work(RankWork work, const Views& views) override { add(work_of(work, views)); }
  void take_own(const OwnKernel& kernel, const Views& /*views*/) override { add(kernel.work); }
  const SpanWork& sum() const { return sum_; }

 private:
  void add(const SpanWork& work) {
    sum_.flops += work.flops;
    sum_.bytes += work.bytes;
    sum_.no_reuse_bytes += work.no_reuse_bytes;
  }

  SpanWork sum_;
};

}  // namespace

std::unique_ptr<Views> counted_views(const Program& program, const RankShape& shape, DType dtype) {
  return std::make_unique<CountedViews>(program, shape, dtype);
}

SpanWork work_of(RankWork work, const Views& views) {
  const DType wide = parameter_dtype(views.dtype());
  const auto parameters = [&](DType dtype) -> ConstMatrixView {
    const ParameterSizes sizes =
        parameter_sizes(views.program(), /*pads_operands=*/false, views.rows().inner);
    return counted(1, sizes.values(), dtype);
  };
  if (work == RankWork::kLoss) return streaming_work({views.in(0), views.out()});
  // A rank copies its rows with all of their columns, to slices or from them.
  if (work == RankWork::kToColumns) return streaming_work({views.in(0), views.in(0)});
  if (work == RankWork::kToRows) return streaming_work({views.out(), views.out()});
  if (work == RankWork::kZeroGradients) return streaming_work({parameters(wide)});
  if (work != RankWork::kStep) return {};
  // Adam reads gradients, and reads and writes values and two moments.
  const ConstMatrixView all = parameters(wide);
  SpanWork step = streaming_work({all, all, all, all, all, all, all});
  if (wide == views.dtype()) return step;
  // Copies of the weights, with what lies between them.
  step.bytes += streaming_work({all, parameters(views.dtype())}).bytes;
  step.no_reuse_bytes = step.bytes;
  return step;
}

SpanWork work_of(const Program& program, const Call& call, const RankShape& shape, DType dtype) {
  Counter counter;
  CountedViews views(program, shape, dtype);
  lower(views, call, counter);
  return counter.sum();
}

std::vector<SpanWork> work_of_operations(const Program& program, const Schedule& schedule,
                                         const RankShape& shape, DType dtype) {
  std::vector<Counter> all(program.operations.size());
  CountedViews views(program, shape, dtype);
  for (const auto* blocks : {&schedule.prologue, &schedule.blocks}) {
    for (const Block& block : *blocks) {
      for (const Call& call : block.calls) {
        lower(views, call, all[static_cast<std::size_t>(call.value)]);
      }
    }
  }
  std::vector<SpanWork> sums;
  for (const Counter& counter : all) sums.push_back(counter.sum());
  return sums;
}

}  // namespace atl
