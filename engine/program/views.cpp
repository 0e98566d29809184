#include "engine/program/views.hpp"

namespace atl {

void RankShape::divide(std::int64_t central_share, std::int64_t marginal_share) {
  ATOLL_ASSERT(groups.empty(), "{} groups of marginal rows in a shared part", groups.size());
  rows.part = rows.inner;
  part_marginal = marginal;
  rows.inner = central_share + marginal_share;
  marginal = marginal_share;
}

RowRange RankShape::range_of(Rows range) const {
  if (range.is_within()) return within.at(static_cast<std::size_t>(range.hops())).rows;
  if (range.is_marginal_group()) return groups.at(static_cast<std::size_t>(range.group())).rows;
  return range == Rows::kMarginal  ? RowRange{central(), rows.inner}
         : range == Rows::kCentral ? RowRange{0, central()}
                                   : RowRange{0, rows.inner};
}

RowRange RankShape::range_of_part(Rows range) const {
  ATOLL_ASSERT(!range.is_marginal_group(), "group {} of a shared part", range.group());
  const std::int64_t central = rows.part - part_marginal;
  return range == Rows::kMarginal  ? RowRange{central, rows.part}
         : range == Rows::kCentral ? RowRange{0, central}
                                   : RowRange{0, rows.part};
}

std::int64_t RankShape::edges_in(Rows range) const {
  if (range.is_within()) return within.at(static_cast<std::size_t>(range.hops())).edges;
  if (range.is_marginal_group()) return groups.at(static_cast<std::size_t>(range.group())).edges;
  return range == Rows::kMarginal  ? marginal_edges
         : range == Rows::kCentral ? rows.edges - marginal_edges
                                   : rows.edges;
}

namespace {

// A matrix without gaps between its rows as one row.
MatrixView flat(MatrixView m) {
  ATOLL_ASSERT(m.stride == m.cols);
  return {m.data, 1, m.rows * m.cols, m.rows * m.cols, m.dtype};
}

MatrixView heads_read(const Operation& op, MatrixView all) {
  if (op.heads_read < 0) return all;
  return all.rows_in({op.first_head, op.first_head + op.heads_read});
}

MatrixView columns_read(const Operation& op, MatrixView all) {
  return op.columns_read < 0 ? all : all.columns_in(op.first_column, op.columns_read);
}

}  // namespace

ConstMatrixView Views::row_parameter(int number) const {
  return flat(heads_read(op(), parameter(number)));
}

MatrixView Views::row_gradient(int number) const {
  return flat(heads_read(op(), gradient(number)));
}

ConstMatrixView Views::edge_parameter(int number) const {
  return columns_read(op(), parameter(number));
}

MatrixView Views::edge_gradient(int number) const { return columns_read(op(), gradient(number)); }

RowRange Views::weight_range() const {
  const std::int64_t first = op().as<Product>().first_row;
  return {first, first + weight_rows(program_, op())};
}

Epilogue Views::epilogue() const {
  const Tail& tail = op().tail;
  Epilogue epilogue;
  epilogue.function = tail.activation.function;
  epilogue.dropout = dropout(tail.activation);
  if (tail.bias != kNoValue) epilogue.beta = parameter(program_.at(tail.bias).parameter);
  if (tail.statistics == kNoValue) return epilogue;
  // Statistics of this pass follow from sums over all ranks.
  const bool running = program_.at(tail.statistics).inputs.empty();
  const NormViews norm = this->norm(tail.norm);
  epilogue.gamma = parameter(program_.at(tail.gamma).parameter);
  epilogue.mean = running ? norm.running_mean : norm.mean;
  epilogue.inv_std = running ? norm.running_inverse_std : norm.inverse_std;
  return epilogue;
}

ActivationGradient Views::activation(Value from) const {
  if (from == kNoValue) return {};
  const Activation& of = op().tail.activation;
  return {rows_of(from), out(), of.function, dropout(of)};
}

void lower_tail(const Views& views, Requests& requests) {
  requests.take(kernels::ApplyEpilogue{views.in(0), views.epilogue(), views.out()});
}

}  // namespace atl
