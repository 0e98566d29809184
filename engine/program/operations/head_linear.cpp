// Products of each head's columns with a matrix of its own, and their gradients.
#include "engine/program/gradients.hpp"
#include "engine/program/operations/rules.hpp"
#include "engine/program/views.hpp"

namespace atl {

namespace {

// Columns of one head.
template <typename View>
View of_head(View x, std::int64_t head, std::int64_t heads) {
  const std::int64_t columns = x.cols / heads;
  return x.columns_in(head * columns, columns);
}

void lower_head_linear(const Views& views, Requests& requests) {
  const Operation& op = views.op();
  const auto& [heads, transposed] = op.as<HeadProduct>();
  for (std::int64_t head = 0; head < heads; ++head) {
    requests.take(
        kernels::Gemm{Transpose::kNo, of_head(views.in(0), head, heads),
                      transposed ? Transpose::kYes : Transpose::kNo,
                      views.operand(op.parameter).rows_in(views.block(op.parameter, head)), 0,
                      of_head(views.out(), head, heads)});
  }
}

void lower_head_weight_gradient(const Views& views, Requests& requests) {
  const Operation& op = views.op();
  const std::int64_t heads = op.as<HeadProduct>().heads;
  for (std::int64_t head = 0; head < heads; ++head) {
    requests.take(
        kernels::Gemm{Transpose::kYes, of_head(views.in(0), head, heads), Transpose::kNo,
                      of_head(views.in(1), head, heads), 1,
                      views.gradient(op.parameter).rows_in(views.block(op.parameter, head))});
  }
}

Value through_head_linear(Gradients& gradients, Value reader, std::size_t /*i*/) {
  const Operation op = gradients.at(reader);
  return gradients.append({.rule = &rules::kHeadLinear,
                           .inputs = {gradients.of(reader), op.inputs[1]},
                           .columns = op.columns,
                           .parameter = op.parameter,
                           .attributes = HeadProduct{op.as<HeadProduct>().heads, true}});
}

void add_head_weight_gradient(Gradients& gradients, Value v) {
  const Operation op = gradients.at(v);
  gradients.append({.rule = &rules::kHeadWeightGradient,
                    .inputs = {op.inputs[0], gradients.of(v)},
                    .columns = op.columns,
                    .parameter = op.parameter,
                    .attributes = op.attributes});
}

}  // namespace

constinit const Rule rules::kHeadLinear{.name = "head linear",
                                        .is_product = true,
                                        .lower = lower_head_linear,
                                        .through = through_head_linear,
                                        .parameters = add_head_weight_gradient,
                                        .print = [](const Operation& op, std::string& text) {
                                          if (op.as<HeadProduct>().transposed)
                                            text += " transposed";
                                        }};
constinit const Rule rules::kHeadWeightGradient{.name = "head weight gradient",
                                                .reach = Reach::kSum,
                                                .has_rows = false,
                                                .lower = lower_head_weight_gradient};

}  // namespace atl
