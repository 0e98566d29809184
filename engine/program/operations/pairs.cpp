// Scores of pairs of rows, and what their gradients give the rows at both ends.
#include "engine/program/gradients.hpp"
#include "engine/program/operations/rules.hpp"
#include "engine/program/views.hpp"

namespace atl {

namespace {

void lower_products(const Views& views, Requests& requests) {
  const PairViews pairs = views.pairs();
  requests.take(
      kernels::PairProducts{pairs.rows, pairs.first, pairs.rows, pairs.second, views.out()});
}

void lower_dots(const Views& views, Requests& requests) {
  const PairViews pairs = views.pairs();
  requests.take(kernels::PairDots{pairs.rows, pairs.first, pairs.second, views.out()});
}

// Both ends get theirs at once.
Value through_products(Gradients& gradients, Value reader, std::size_t /*i*/) {
  return gradients.append({.rule = &rules::kEndRows,
                           .inputs = {gradients.of(reader)},
                           .columns = gradients.columns(reader)});
}

Value through_dots(Gradients& gradients, Value reader, std::size_t /*i*/) {
  return gradients.append({.rule = &rules::kEndFactors,
                           .inputs = {gradients.of(reader)},
                           .columns = gradients.columns(reader),
                           .packed = true,
                           .wide = true});
}

void lower_convert(const Views& views, Requests& requests) {
  requests.take(kernels::Convert{views.in(0), views.out()});
}

Value through_scores(Gradients& gradients, Value reader, std::size_t i) {
  if (gradients.all_are_wide()) return pass_on(gradients, reader, i);
  return gradients.append({.rule = &rules::kNarrow,
                           .inputs = {gradients.of(reader)},
                           .columns = gradients.columns(reader)});
}

void lower_end_rows(const Views& views, Requests& requests) {
  const PairViews pairs = views.pairs();
  requests.take(kernels::PairProducts{views.inner(views.input(0)), pairs.pair_of, pairs.rows,
                                      pairs.other_end, views.inner(views.value())});
}

void lower_end_factors(const Views& views, Requests& requests) {
  requests.take(kernels::GatherRows{
      views.inner(views.input(0)), views.pairs().pair_of, {}, views.inner(views.value())});
}

void add_ends(Gradients& gradients, Value v) {
  gradients.append(
      {.rule = &rules::kAddEnds, .inputs = {gradients.of(v)}, .columns = gradients.columns(v)});
}

// A row's gradient is the sum over its ends: of rows of their own, or of factors times other rows.
void lower_add_ends(const Views& views, Requests& requests) {
  const PairViews pairs = views.pairs();
  const MatrixView ends = views.inner(views.input(0));
  const bool are_factors = views.program().at(views.input(0)).is(rules::kEndFactors);
  RowRange range{0, 0};
  for (const PairViews::Sum& sum : {pairs.inner, pairs.fetched}) {
    range = {range.end, range.end + kernels::length(sum.ends.col_idx)};
    if (sum.ends.rows == 0) continue;
    SparseOperator of = sum.ends;
    of.cols = are_factors ? pairs.rows.rows : ends.rows;
    if (are_factors) {
      of.values = {static_cast<const float*>(ends.rows_in(range).data), sum.ends.col_idx.size()};
    }
    requests.take(kernels::Spmm{
        of, {0, of.rows}, are_factors ? pairs.rows : ends, sum.adds ? 1.0 : 0.0, sum.gradient});
  }
}

}  // namespace

constinit const Rule rules::kEmbeddings{
    .name = "embeddings", .is_leaf = true, .is_trained = true, .parameters = add_ends};
constinit const Rule rules::kPairProducts{.name = "pair products",
                                          .rows_of = RowsOf::kPairs,
                                          .lower = lower_products,
                                          .through = through_products};
constinit const Rule rules::kPairDots{
    .name = "pair dots", .rows_of = RowsOf::kPairs, .lower = lower_dots, .through = through_dots};
constinit const Rule rules::kScores{
    .name = "scores", .is_tail = true, .lower = lower_convert, .through = through_scores};
constinit const Rule rules::kNarrow{.name = "narrow", .lower = lower_convert};
constinit const Rule rules::kEndRows{
    .name = "end rows", .rows_of = RowsOf::kEnds, .lower = lower_end_rows};
constinit const Rule rules::kEndFactors{
    .name = "end factors", .rows_of = RowsOf::kEnds, .lower = lower_end_factors};
constinit const Rule rules::kAddEnds{
    .name = "add ends", .reach = Reach::kSum, .has_rows = false, .lower = lower_add_ends};

}  // namespace atl
