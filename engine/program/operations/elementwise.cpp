// Operations on rows element by element, and their gradients.
#include <fmt/format.h>

#include "engine/program/gradients.hpp"
#include "engine/program/operations/rules.hpp"
#include "engine/program/views.hpp"

namespace atl {

namespace {

void lower_combine(const Views& views, Requests& requests) {
  const auto& sum = views.op().as<Combination>();
  const std::size_t last = views.op().inputs.size() - 1;
  requests.take(kernels::Combine{sum.first_factor, views.in(0), last > 0 ? sum.second_factor : 0,
                                 views.in(last), views.out()});
}

void add_bias_gradient(Gradients& gradients, Value v) {
  gradients.append({.rule = &rules::kBiasGradient,
                    .inputs = {gradients.of(v)},
                    .columns = gradients.columns(v),
                    .parameter = gradients.at(v).parameter});
}

// Dropout alone keeps nothing: its gradient falls by the same random numbers.
Value through_activation(Gradients& gradients, Value reader, std::size_t /*i*/) {
  const Operation activate = gradients.at(reader);
  const Activation& activation = activate.tail.activation;
  Operation op{.rule = &rules::kActivate,
               .inputs = {gradients.of(reader)},
               .columns = activate.columns,
               .tail = {.activation = activation}};
  if (activation.function != ActivationFunction::kNone) {
    op.rule = &rules::kActivateBackward;
    const bool of_input = activation.function == ActivationFunction::kGelu;
    op.inputs.push_back(of_input ? activate.inputs[0] : reader);
  }
  return gradients.append(op);
}

Value through_maximum(Gradients& gradients, Value reader, std::size_t i) {
  const Operation op = gradients.at(reader);
  return gradients.append({.rule = &rules::kMaximumGradient,
                           .inputs = {gradients.of(reader), op.inputs[0], op.inputs[1]},
                           .columns = op.columns,
                           .attributes = MaximumGradient{.of_second = i == 1}});
}

Value through_scale(Gradients& gradients, Value reader, std::size_t /*i*/) {
  const Operation op = gradients.at(reader);
  return gradients.append({.rule = &rules::kScale,
                           .inputs = {gradients.of(reader), op.inputs[1]},
                           .columns = op.columns,
                           .parameter = op.parameter});
}

void add_scale_gradient(Gradients& gradients, Value v) {
  const Operation op = gradients.at(v);
  gradients.append({.rule = &rules::kScaleGradient,
                    .inputs = {op.inputs[0], gradients.of(v)},
                    .columns = op.columns,
                    .parameter = op.parameter});
}

void lower_degree(const Views& views, Requests& requests) {
  const auto& scale = views.op().as<DegreeScale>();
  const DegreeViews degrees = views.degrees(scale.with_self);
  const RowRange range = views.range();
  requests.take(kernels::GatherRows{
      views.inner(views.input(0)),
      degrees.counting.subspan(static_cast<std::size_t>(range.begin),
                               static_cast<std::size_t>(range.size())),
      scale.root == DegreeRoot::kSource ? degrees.of_sources : degrees.of_targets, views.out()});
}

Value through_degree(Gradients& gradients, Value reader, std::size_t /*i*/) {
  Operation op = gradients.at(reader);
  op.inputs = {gradients.of(reader)};
  return gradients.append(op);
}

}  // namespace

constinit const Rule rules::kCombine{
    .name = "combine", .may_be_in = true, .lower = lower_combine, .through = pass_on};
constinit const Rule rules::kBias{.name = "bias",
                                  .may_be_in = true,
                                  .takes_tail = true,
                                  .is_tail = true,
                                  .lower = lower_tail,
                                  .through = pass_on,
                                  .parameters = add_bias_gradient};
constinit const Rule rules::kBiasGradient{
    .name = "bias gradient",
    .reach = Reach::kSum,
    .has_rows = false,
    .may_be_in = true,
    .sums_gradient = true,
    .lower = [](const Views& views, Requests& requests) {
      requests.take(kernels::ColumnSums{views.in(0), /*accumulate=*/true,
                                        views.gradient(views.op().parameter),
                                        views.activation(views.op().decided.through)});
    }};
constinit const Rule rules::kActivate{.name = "activate",
                                      .may_be_in = true,
                                      .is_tail = true,
                                      .lower = lower_tail,
                                      .through = through_activation};
constinit const Rule rules::kActivateBackward{
    .name = "activate backward",
    .may_be_in = true,
    .lower = [](const Views& views, Requests& requests) {
      requests.take(kernels::ActivationBackward{views.in(0), views.activation(views.input(1))});
    }};
constinit const Rule rules::kMaximum{
    .name = "maximum",
    .may_be_in = true,
    .lower =
        [](const Views& views, Requests& requests) {
          requests.take(kernels::Maximum{views.in(0), views.in(1), views.out()});
        },
    .through = through_maximum};
constinit const Rule rules::kMaximumGradient{
    .name = "maximum gradient",
    .may_be_in = true,
    .lower =
        [](const Views& views, Requests& requests) {
          const bool of_second = views.op().as<MaximumGradient>().of_second;
          requests.take(kernels::MaximumBackward{views.in(0), views.in(1), views.in(2),
                                                 of_second ? MaximumOf::kSecond : MaximumOf::kFirst,
                                                 views.out()});
        },
    .print =
        [](const Operation& op, std::string& text) {
          if (op.as<MaximumGradient>().of_second) text += " of second";
        }};
constinit const Rule rules::kScale{
    .name = "scale",
    .may_be_in = true,
    .lower =
        [](const Views& views, Requests& requests) {
          requests.take(
              kernels::Scale{views.in(0), views.parameter(views.op().parameter), views.out()});
        },
    .through = through_scale,
    .parameters = add_scale_gradient};
constinit const Rule rules::kScaleGradient{
    .name = "scale gradient",
    .reach = Reach::kSum,
    .has_rows = false,
    .lower = [](const Views& views, Requests& requests) {
      requests.take(kernels::Dot{views.in(0), views.in(1), /*accumulate=*/true,
                                 views.gradient(views.op().parameter)});
    }};
constinit const Rule rules::kScaleByDegree{
    .name = "scale by degree",
    .reads = [](const Operation&, GraphData data) { return data == GraphData::kDegrees; },
    .lower = lower_degree,
    .through = through_degree,
    .print =
        [](const Operation& op, std::string& text) {
          text += op.as<DegreeScale>().root == DegreeRoot::kSource ? " out^-1/2" : " in^1/2";
        }};

}  // namespace atl
