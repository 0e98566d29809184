// Products with weights, and their gradients.
#include "engine/program/gradients.hpp"
#include "engine/program/operations/rules.hpp"
#include "engine/program/views.hpp"

namespace atl {

namespace {

double beta_of(const Operation& op) { return op.decided.added_to == kNoValue ? 0.0 : 1.0; }

void lower_linear(const Views& views, Requests& requests) {
  const Operation& op = views.op();
  if (views.call_rows() == Rows::kPlaced) {
    for (const RowRange& range : views.computed().ranges) {
      requests.take(kernels::Gemm{Transpose::kNo, views.whole(views.input(0)).rows_in(range),
                                  Transpose::kNo, views.operand(op.parameter), 0,
                                  views.whole(views.value()).rows_in(range)});
    }
    return;
  }
  const Transpose transpose = op.as<Product>().transposed ? Transpose::kYes : Transpose::kNo;
  requests.take(kernels::Gemm{Transpose::kNo, views.in(0), transpose,
                              views.operand(op.parameter).rows_in(views.weight_range()),
                              beta_of(op), views.out(), views.epilogue()});
}

Value through_linear(Gradients& gradients, Value reader, std::size_t i) {
  const Operation op = gradients.at(reader);
  return gradients.append(
      {.rule = &rules::kLinear,
       .inputs = {gradients.of(reader), op.inputs[1]},
       .columns = gradients.columns(op.inputs[i]),
       .parameter = op.parameter,
       .attributes = Product{.transposed = true, .first_row = op.as<Product>().first_row}});
}

void add_weight_gradient(Gradients& gradients, Value v) {
  const Operation op = gradients.at(v);
  gradients.append({.rule = &rules::kWeightGradient,
                    .inputs = {op.inputs[0], gradients.of(v)},
                    .columns = op.columns,
                    .parameter = op.parameter,
                    .attributes = Product{.first_row = op.as<Product>().first_row}});
}

void lower_weight_gradient(const Views& views, Requests& requests) {
  requests.take(kernels::Gemm{Transpose::kYes, views.in(0), Transpose::kNo, views.in(1), 1,
                              views.gradient(views.op().parameter).rows_in(views.weight_range())});
}

void lower_node_gradient(const Views& views, Requests& requests) {
  const ConstMatrixView dy = views.in(0);
  const MatrixView gradient = views.gradient(views.op().parameter).rows_in(views.range());
  if (dy.dtype == gradient.dtype) {
    requests.take(kernels::ApplyEpilogue{dy, {}, gradient});
  } else {
    requests.take(kernels::Convert{dy, gradient});
  }
}

void print_product(const Operation& op, std::string& text) {
  if (op.as<Product>().transposed) text += " transposed";
}

}  // namespace

constinit const Rule rules::kLinear{.name = "linear",
                                    .is_product = true,
                                    .adds = true,
                                    .takes_tail = true,
                                    .lower = lower_linear,
                                    .through = through_linear,
                                    .parameters = add_weight_gradient,
                                    .print = print_product};
constinit const Rule rules::kWeightGradient{.name = "weight gradient",
                                            .reach = Reach::kSum,
                                            .has_rows = false,
                                            .lower = lower_weight_gradient};
constinit const Rule rules::kNodeGradient{
    .name = "node gradient", .reach = Reach::kSum, .has_rows = false, .lower = lower_node_gradient};

}  // namespace atl
