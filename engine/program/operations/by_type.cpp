// Products with a weight and a bias per type of nodes, of rows that are put together by type
// (NodeTypeRows). They stand before the first layer, so that no gradient goes through them.
#include "engine/program/gradients.hpp"
#include "engine/program/operations/rules.hpp"
#include "engine/program/views.hpp"

namespace atl {

namespace {

void lower_sort(const Views& views, Requests& requests) {
  const NodeTypeRows& types = views.node_types();
  requests.take(
      kernels::GatherRows{views.inner(views.input(0)),
                          views.op().as<SortByType>().back ? types.places() : types.sorted(),
                          {},
                          views.inner(views.value())});
}

Value through_sort(Gradients& gradients, Value reader, std::size_t i) {
  const Operation op = gradients.at(reader);
  return gradients.append({.rule = &rules::kSortByType,
                           .inputs = {gradients.of(reader)},
                           .columns = gradients.columns(op.inputs[i]),
                           .attributes = SortByType{.back = !op.as<SortByType>().back}});
}

// Rows of x of one type; it may have fewer columns than others, behind which are zeros.
ConstMatrixView rows_of_type(const Views& views, RowRange rows, RowRange of_weight) {
  MatrixView x = views.inner(views.input(0)).rows_in(rows);
  x.cols = of_weight.size();
  return x;
}

void lower_linear_by_type(const Views& views, Requests& requests) {
  const Operation& op = views.op();
  for (const auto& [type, rows] : views.node_types().blocks()) {
    const RowRange of_weight = views.block(op.parameter, type);
    Epilogue epilogue;
    epilogue.beta = views.parameter(op.second_parameter).rows_in({type, type + 1});
    requests.take(kernels::Gemm{Transpose::kNo, rows_of_type(views, rows, of_weight),
                                Transpose::kNo, views.operand(op.parameter).rows_in(of_weight), 0,
                                views.inner(views.value()).rows_in(rows), epilogue});
  }
}

void add_typed_gradients(Gradients& gradients, Value v) {
  const Operation op = gradients.at(v);
  gradients.append({.rule = &rules::kWeightGradientByType,
                    .inputs = {op.inputs[0], gradients.of(v)},
                    .columns = op.columns,
                    .parameter = op.parameter});
  gradients.append({.rule = &rules::kBiasGradientByType,
                    .inputs = {gradients.of(v)},
                    .columns = op.columns,
                    .parameter = op.second_parameter});
}

void lower_typed_weight_gradient(const Views& views, Requests& requests) {
  const int parameter = views.op().parameter;
  for (const auto& [type, rows] : views.node_types().blocks()) {
    const RowRange of_weight = views.block(parameter, type);
    requests.take(kernels::Gemm{Transpose::kYes, rows_of_type(views, rows, of_weight),
                                Transpose::kNo, views.inner(views.input(1)).rows_in(rows), 1,
                                views.gradient(parameter).rows_in(of_weight)});
  }
}

void lower_typed_bias_gradient(const Views& views, Requests& requests) {
  const MatrixView gradient = views.gradient(views.op().parameter);
  for (const auto& [type, rows] : views.node_types().blocks()) {
    requests.take(kernels::ColumnSums{views.inner(views.input(0)).rows_in(rows),
                                      /*accumulate=*/true, gradient.rows_in({type, type + 1})});
  }
}

}  // namespace

constinit const Rule rules::kSortByType{.name = "sort by type",
                                        .reach = Reach::kWhole,
                                        .moves_rows = true,
                                        .lower = lower_sort,
                                        .through = through_sort,
                                        .print = [](const Operation& op, std::string& text) {
                                          if (op.as<SortByType>().back) text += " transposed";
                                        }};
constinit const Rule rules::kLinearByType{
    .name = "linear by type",
    .reach = Reach::kWhole,
    .moves_rows = true,
    .reads = [](const Operation&, GraphData data) { return data == GraphData::kNodeTypes; },
    .lower = lower_linear_by_type,
    .parameters = add_typed_gradients};
constinit const Rule rules::kWeightGradientByType{.name = "weight gradient by type",
                                                  .reach = Reach::kWhole,
                                                  .has_rows = false,
                                                  .lower = lower_typed_weight_gradient};
constinit const Rule rules::kBiasGradientByType{.name = "bias gradient by type",
                                                .reach = Reach::kWhole,
                                                .has_rows = false,
                                                .lower = lower_typed_bias_gradient};

}  // namespace atl
