#include "engine/program/work.hpp"

#include "base/error.hpp"
#include "kernels/operation_work.hpp"

namespace atl {

std::int64_t RankShape::rows_in(Rows range) const {
  switch (range) {
    case Rows::kAll:
      return rows.inner;
    case Rows::kMarginal:
      return marginal;
    case Rows::kCentral:
      return rows.inner - marginal;
    case Rows::kComputed:
    case Rows::kPlaced:
      return rows.computed;
  }
  return 0;
}

std::int64_t RankShape::edges_in(Rows range) const {
  return range == Rows::kMarginal  ? marginal_edges
         : range == Rows::kCentral ? rows.edges - marginal_edges
                                   : rows.edges;
}

namespace {

// Matrices that are only counted.
ConstMatrixView counted(std::int64_t rows, std::int64_t columns, DType dtype) {
  return {nullptr, rows, columns, columns, dtype};
}

SpanWork product_work(const Program& program, const Call& call, std::int64_t rows, DType dtype) {
  const Operation& op = program.at(call.value);
  const DeclaredParameter& weight = program.parameters[static_cast<std::size_t>(op.parameter)];
  const std::int64_t weight_rows = atl::weight_rows(program, op);
  const ConstMatrixView x = counted(rows, program.at(op.inputs[0]).columns, dtype);
  if (op.kind == OpKind::kWeightGradient || op.kind == OpKind::kWeightGradientByType) {
    return gemm_work(Transpose::kYes, x, counted(rows, op.columns, dtype), 1,
                     counted(weight_rows, weight.columns, parameter_dtype(dtype)));
  }
  return gemm_work(Transpose::kNo, x, counted(weight_rows, weight.columns, dtype),
                   op.added_to == kNoValue ? 0 : 1, counted(rows, op.columns, dtype));
}

// A block of rows for each type, each with a weight of its own.
SpanWork product_by_type_work(const Program& program, const Call& call, std::int64_t rows,
                              DType dtype) {
  const Operation& op = program.at(call.value);
  const DeclaredParameter& weight = program.parameters[static_cast<std::size_t>(op.parameter)];
  const bool is_gradient = op.kind == OpKind::kWeightGradientByType;
  SpanWork work = product_work(program, call, rows, dtype);
  const ConstMatrixView others = counted(weight.rows - weight_rows(program, op), weight.columns,
                                         is_gradient ? parameter_dtype(dtype) : dtype);
  const SpanWork beside = is_gradient ? streaming_work({others, others}) : streaming_work({others});
  work.bytes += beside.bytes;
  work.no_reuse_bytes += beside.bytes;
  return work;
}

SpanWork aggregate_work(const Operation& op, Rows rows, const RankShape& shape, DType dtype) {
  const bool forward = op.direction == Direction::kForward;
  const std::int64_t columns = shape.rows.inner + shape.rows.halo(op.direction);
  // The mean's factors belong to its rows; to columns where it is transposed.
  const SparseRows sparse{.rows = static_cast<double>(shape.rows_in(rows)),
                          .edges = static_cast<double>(shape.edges_in(rows)),
                          .columns = columns,
                          .has_values = shape.weighted,
                          .has_row_scale = forward ? has_row_factors(op.normalisation)
                                                   : has_column_factors(op.normalisation),
                          .has_col_scale = forward ? has_column_factors(op.normalisation)
                                                   : has_row_factors(op.normalisation),
                          .has_self_weight = adds_self(op.normalisation)};
  return spmm_work(sparse, counted(columns, op.columns, dtype), op.added_to == kNoValue ? 0 : 1,
                   counted(shape.rows.inner, op.columns, dtype));
}

// Of the three parts of attention. How many edges leave halo rows is not known from counts: the
// work along them is that of the inner rows as well.
SpanWork attention_part_work(const Program& program, const Operation& op, Rows rows,
                             const RankShape& shape, DType dtype) {
  if (op.kind == OpKind::kAttendHalo) return {};
  const AttentionOptions& attention = op.attention;
  const DType wide = parameter_dtype(dtype);
  const auto bytes = [&](std::int64_t columns, DType type) {
    return static_cast<double>(shape.rows_in(rows) * columns * bytes_of(type));
  };
  const bool additive = attention.score == AttentionScore::kAdditive;
  const std::int64_t t_columns = additive ? attention.heads : op.columns;
  const double t_bytes = bytes(t_columns, additive ? wide : dtype);
  const std::int64_t coefficient_bytes = 2 * attention.heads * bytes_of(wide);
  const SparseRows sparse{.rows = static_cast<double>(shape.rows_in(rows)),
                          .edges = static_cast<double>(shape.edges_in(rows)),
                          .columns = shape.rows.inner + shape.rows.forward_halo};
  const bool reads_edge_scores = op.inputs.size() > (op.kind == OpKind::kAttend ? 4U : 6U);
  // Of an edge, that are multiplied in each pass over it.
  const int features =
      op.multiplies_edge_features()
          ? static_cast<int>(program.parameters[static_cast<std::size_t>(op.second_parameter)].rows)
          : 0;
  const std::int64_t feature_bytes = features * bytes_of(DType::kF32);
  const std::int64_t edge_bytes =
      (reads_edge_scores ? attention.heads * bytes_of(wide) : 0) + feature_bytes;
  if (op.kind == OpKind::kAttend) {
    return attention_work(sparse, counted(sparse.columns, op.columns, dtype), 2 + features,
                          edge_bytes, t_bytes + bytes(op.columns, dtype));
  }
  if (op.kind == OpKind::kAttendTargets) {
    const std::int64_t columns = program.at(op.inputs[2]).columns;
    return attention_work(sparse, counted(sparse.columns, columns, dtype), 4 + 2 * features,
                          coefficient_bytes + edge_bytes, 2 * t_bytes + bytes(columns, dtype));
  }
  const std::int64_t of_score = additive ? 0 : t_columns * bytes_of(dtype);
  return attention_work(
      sparse, counted(shape.rows.inner, op.columns, dtype), (additive ? 1 : 2) + features,
      8 + coefficient_bytes + of_score + feature_bytes, 2 * bytes(op.columns, dtype));
}

// Of products of the features of edges, and of the means that rows have, as Network runs them.
SpanWork edge_scores_work(const Program& program, const Operation& op, Rows rows,
                          const RankShape& shape, DType dtype) {
  const DType wide = parameter_dtype(dtype);
  const DeclaredParameter& declared = program.parameters[static_cast<std::size_t>(op.parameter)];
  const ConstMatrixView weight = counted(declared.rows, declared.columns, wide);
  const std::int64_t own = op.attention.with_self ? shape.rows_in(rows) : 0;
  SpanWork sum;
  for (const std::int64_t edges : {shape.edges_in(rows), own}) {
    if (edges == 0) continue;
    const ConstMatrixView features = counted(edges, weight.rows, wide);
    const ConstMatrixView scores = counted(edges, weight.cols, wide);
    const SpanWork one = op.kind == OpKind::kEdgeScores
                             ? gemm_work(Transpose::kNo, features, weight, 0, scores)
                             : gemm_work(Transpose::kYes, features, scores, 1, weight);
    sum.flops += one.flops;
    sum.bytes += one.bytes;
    sum.no_reuse_bytes += one.no_reuse_bytes;
  }
  return sum;
}

// Of the parts of an aggregate per relation, as of attention's.
SpanWork relations_work(const Program& program, const Operation& op, Rows rows,
                        const RankShape& shape, DType dtype) {
  if (op.kind == OpKind::kRelationsHalo) return {};
  const bool forward = op.kind == OpKind::kAggregateRelations;
  const std::int64_t relations =
      forward ? op.relations : program.at(op.inputs[1]).columns / op.columns;
  const std::int64_t with_halo = shape.rows.inner + shape.rows.forward_halo;
  const std::int64_t pairs = shape.rows.inner * relations;
  const SparseRows sparse{
      .rows = static_cast<double>(shape.rows_in(rows) * (forward ? relations : 1)),
      .edges = static_cast<double>(shape.edges_in(rows)),
      .columns = forward ? with_halo : pairs,
      .has_values = true};
  const std::int64_t columns = op.message_columns();
  return spmm_work(sparse, counted(sparse.columns, columns, dtype), 0,
                   counted(forward ? pairs : shape.rows.inner, columns, dtype));
}

// Of the parts of pooling, as of attention's.
SpanWork pool_work(const Operation& op, Rows rows, const RankShape& shape, DType dtype) {
  if (op.kind == OpKind::kPoolHalo) return {};
  const std::int64_t wide = op.columns * bytes_of(parameter_dtype(dtype));
  const std::int64_t row = op.columns * bytes_of(dtype);
  const bool by_source = op.kind == OpKind::kPoolSources;
  const bool slopes = op.kind == OpKind::kPoolSlope;
  const std::int64_t beside = op.kind == OpKind::kPool ? row
                              : by_source || slopes    ? 2 * row
                                                       : 2 * row + wide;
  const SparseRows sparse{
      .rows = static_cast<double>(shape.rows_in(rows)),
      .edges = static_cast<double>(shape.edges_in(rows)),
      .columns = by_source ? shape.rows.inner : shape.rows.inner + shape.rows.forward_halo};
  return attention_work(sparse, counted(sparse.columns, op.columns, dtype),
                        by_source || slopes ? 2 : 1, by_source ? wide : 0,
                        static_cast<double>(shape.rows_in(rows) * beside));
}

// Of the parts of an aggregate of edges, as of attention's.
SpanWork edges_work(const Program& program, const Operation& op, Rows rows, const RankShape& shape,
                    DType dtype) {
  if (op.kind == OpKind::kEdgesHalo) return {};
  const auto features =
      static_cast<int>(program.parameters[static_cast<std::size_t>(op.parameter)].rows);
  const std::int64_t feature_bytes = features * bytes_of(DType::kF32);
  const auto one = static_cast<double>(shape.rows_in(rows) * op.columns * bytes_of(dtype));
  const std::int64_t with_halo = shape.rows.inner + shape.rows.forward_halo;
  const SparseRows sparse{.rows = static_cast<double>(shape.rows_in(rows)),
                          .edges = static_cast<double>(shape.edges_in(rows)),
                          .columns = with_halo};
  if (op.kind == OpKind::kEdgesSources) {
    return attention_work(sparse, counted(shape.rows.inner, op.columns, dtype), features + 1,
                          8 + feature_bytes, 2 * one);
  }
  const int products = op.kind == OpKind::kAggregateEdges ? features + 1 : 2 * (features + 1);
  return attention_work(sparse, counted(with_halo, op.columns, dtype), products, feature_bytes,
                        one);
}

SpanWork step_work(const Program& program, const RankShape& shape, DType dtype) {
  const DType wide = parameter_dtype(dtype);
  const std::int64_t elements =
      parameter_sizes(program, /*pads_operands=*/false, shape.rows.inner).values();
  const ConstMatrixView all = counted(1, elements, wide);
  SpanWork work = streaming_work({all, all, all, all, all, all, all});
  if (wide == dtype) return work;
  // Copies of the weights, with what lies between them.
  work.bytes += streaming_work({all, counted(1, elements, dtype)}).bytes;
  work.no_reuse_bytes = work.bytes;
  return work;
}

}  // namespace

SpanWork work_of(const Program& program, const Call& call, const RankShape& shape, DType dtype) {
  const Operation& op = program.at(call.value);
  const std::int64_t rows = shape.rows_in(call.rows);
  const ConstMatrixView x = counted(rows, op.columns, dtype);  // most have columns alike
  const auto gradient = [&](bool through, std::initializer_list<ConstMatrixView> beside) {
    const ActivationGradient activation{x, {nullptr, rows, op.columns, op.columns, dtype}};
    return gradient_work(x, through ? activation : ActivationGradient{}, beside);
  };
  switch (op.kind) {
    case OpKind::kLinear:
    case OpKind::kWeightGradient:
      return product_work(program, call, rows, dtype);
    case OpKind::kLinearByType:
    case OpKind::kWeightGradientByType:
      return product_by_type_work(program, call, rows, dtype);
    case OpKind::kAggregate:
      return aggregate_work(op, call.rows, shape, dtype);
    case OpKind::kAttend:
    case OpKind::kAttendTargets:
    case OpKind::kAttendHalo:
    case OpKind::kAttendSources:
      return attention_part_work(program, op, call.rows, shape, dtype);
    case OpKind::kEdgeScores:
    case OpKind::kEdgeScoresGradient:
      return edge_scores_work(program, op, call.rows, shape, dtype);
    case OpKind::kAggregateRelations:
    case OpKind::kRelationsHalo:
    case OpKind::kRelationsSources:
      return relations_work(program, op, call.rows, shape, dtype);
    case OpKind::kPool:
    case OpKind::kPoolTargets:
    case OpKind::kPoolSlope:
    case OpKind::kPoolHalo:
    case OpKind::kPoolSources:
      return pool_work(op, call.rows, shape, dtype);
    case OpKind::kAggregateEdges:
    case OpKind::kEdgesHalo:
    case OpKind::kEdgesSources:
    case OpKind::kEdgesTerms:
      return edges_work(program, op, call.rows, shape, dtype);
    case OpKind::kHeadDots:
      return streaming_work({counted(rows, program.at(op.inputs[0]).columns, dtype),
                             counted(rows, op.columns, parameter_dtype(dtype))});
    case OpKind::kHeadDotsBackward:
      return streaming_work({counted(rows, op.attention.heads, parameter_dtype(dtype)), x, x});
    case OpKind::kHeadMean:
      return streaming_work({x, counted(rows, op.columns * op.attention.heads, dtype)});
    case OpKind::kHeadMeanBackward:
      return streaming_work({x, counted(rows, op.columns / op.attention.heads, dtype)});
    case OpKind::kCopy:
      // Without halo rows the features are as good as their copy, see allocate().
      return shape.rows.forward_halo == 0 ? SpanWork{} : streaming_work({x, x});
    case OpKind::kNodeGradient:
    case OpKind::kSortByType:
    case OpKind::kBias:
    case OpKind::kActivate:
    case OpKind::kNormalise:
    case OpKind::kLayerNorm:
    case OpKind::kLoss:
    case OpKind::kScale:
    case OpKind::kScaleGradient:
    case OpKind::kScaleByDegree:
      return streaming_work({x, x});
    case OpKind::kActivateBackward:
      return gradient(/*through=*/true, {});
    case OpKind::kBiasGradient:
    case OpKind::kBiasGradientByType:
      return gradient(op.through != kNoValue, {});
    case OpKind::kNormSums:
      return gradient(op.through != kNoValue, {x});
    case OpKind::kMaximumGradient:
      return streaming_work({x, x, x, x});
    case OpKind::kCombine:
    case OpKind::kMaximum:
    case OpKind::kLayerNormBackward:
    case OpKind::kNormBackward:
      return streaming_work({x, x, x});
    case OpKind::kMoments:
      return streaming_work({x});
    case OpKind::kZeroGradients:
      return streaming_work({counted(1, parameter_sizes(program, false, shape.rows.inner).values(),
                                     parameter_dtype(dtype))});
    case OpKind::kStep:
      return step_work(program, shape, dtype);
    case OpKind::kTakeComputed:
    case OpKind::kPlaceComputed: {
      const ConstMatrixView computed = counted(shape.rows.computed, op.columns, dtype);
      return streaming_work({computed, computed});
    }
    default:
      return {};
  }
}

std::vector<SpanWork> work_of_operations(const Program& program, const Schedule& schedule,
                                         const RankShape& shape, DType dtype) {
  std::vector<SpanWork> all(program.operations.size());
  for (const auto* blocks : {&schedule.prologue, &schedule.blocks}) {
    for (const Block& block : *blocks) {
      for (const Call& call : block.calls) {
        const SpanWork work = work_of(program, call, shape, dtype);
        SpanWork& sum = all[static_cast<std::size_t>(call.value)];
        sum.flops += work.flops;
        sum.bytes += work.bytes;
        sum.no_reuse_bytes += work.no_reuse_bytes;
      }
    }
  }
  return all;
}

}  // namespace atl
