// Layer norm, and batch norm in the steps between which sums are added over ranks.
#include "engine/program/gradients.hpp"
#include "engine/program/operations/rules.hpp"
#include "engine/program/views.hpp"

namespace atl {

namespace {

constexpr double kEpsilon = 1e-5;
constexpr double kMomentum = 0.1;  // of running statistics

NormViews norm_of(const Views& views) { return views.norm(views.op().as<BatchNorm>().number); }

void lower_layer_norm(const Views& views, Requests& requests) {
  const Operation& op = views.op();
  requests.take(kernels::LayerNorm{views.in(0), views.parameter(op.parameter),
                                   views.parameter(op.second_parameter), kEpsilon, views.out()});
}

void lower_layer_norm_backward(const Views& views, Requests& requests) {
  const Operation& op = views.op();
  requests.take(kernels::LayerNormBackward{views.in(0), views.in(1), views.parameter(op.parameter),
                                           kEpsilon, views.out(), views.gradient(op.parameter),
                                           views.gradient(op.second_parameter)});
}

Value through_layer_norm(Gradients& gradients, Value reader, std::size_t /*i*/) {
  const Operation op = gradients.at(reader);
  return gradients.append({.rule = &rules::kLayerNormBackward,
                           .inputs = {gradients.of(reader), op.inputs[0], op.inputs[1]},
                           .columns = op.columns,
                           .parameter = op.parameter,
                           .second_parameter = op.second_parameter});
}

void lower_moments(const Views& views, Requests& requests) {
  const NormViews norm = norm_of(views);
  requests.take(kernels::BatchNormMoments{views.in(0), norm.running_mean, norm.sums});
}

void lower_statistics(const Views& views, Requests& requests) {
  const NormViews norm = norm_of(views);
  requests.take(kernels::BatchNormStatistics{norm.sums, views.graph_nodes(), kMomentum, kEpsilon,
                                             norm.running_mean, norm.running_variance, norm.mean,
                                             norm.inverse_std});
}

void lower_inverse_std(const Views& views, Requests& requests) {
  const NormViews norm = norm_of(views);
  requests.take(kernels::InverseStd{norm.running_variance, kEpsilon, norm.running_inverse_std});
}

// The parameters' gradients get this rank's share; the sum of gradients adds the others'.
void lower_norm_sums(const Views& views, Requests& requests) {
  const Operation& op = views.op();
  const NormViews norm = norm_of(views);
  requests.take(kernels::BatchNormGradientSums{
      views.in(0), views.in(1), norm.mean, norm.inverse_std, norm.sums,
      views.gradient(op.parameter), views.gradient(op.second_parameter),
      views.activation(op.decided.through)});
}

void lower_norm_backward(const Views& views, Requests& requests) {
  const NormViews norm = norm_of(views);
  requests.take(kernels::BatchNormBackward{views.in(0), views.in(1), norm.mean, norm.inverse_std,
                                           views.parameter(views.op().parameter), norm.sums,
                                           views.graph_nodes(), views.out()});
}

// The share of the moments is in the gradient through the normalised rows.
Value through_moments(Gradients& /*gradients*/, Value /*reader*/, std::size_t /*i*/) {
  return kNoValue;
}

Value through_batch_norm(Gradients& gradients, Value reader, std::size_t /*i*/) {
  const Operation normalise = gradients.at(reader);
  const Value dy = gradients.of(reader);
  const Value x = normalise.inputs[0];
  const Value statistics = normalise.tail.statistics;
  Operation part{.columns = normalise.columns,
                 .parameter = normalise.parameter,
                 .second_parameter = normalise.second_parameter,
                 .attributes = BatchNorm{normalise.tail.norm}};
  const auto append = [&](const Rule& rule, std::vector<Value> inputs) {
    part.rule = &rule;
    part.inputs = std::move(inputs);
    return gradients.append(part);
  };
  const Value sums = append(rules::kNormSums, {dy, x, statistics});
  const Value all = append(rules::kSumRanks, {sums});
  return append(rules::kNormBackward, {dy, x, statistics, normalise.tail.gamma, all});
}

}  // namespace

constinit const Rule rules::kLayerNorm{.name = "layer norm",
                                       .lower = lower_layer_norm,
                                       .through = through_layer_norm,
                                       .parameters = on_the_way};
constinit const Rule rules::kLayerNormBackward{.name = "layer norm backward",
                                               .may_be_in = true,
                                               .sums = true,
                                               .lower = lower_layer_norm_backward};
constinit const Rule rules::kMoments{.name = "moments",
                                     .reach = Reach::kWhole,
                                     .has_rows = false,
                                     .span = "norm statistics",
                                     .lower = lower_moments,
                                     .through = through_moments};
constinit const Rule rules::kStatistics{.name = "statistics",
                                        .reach = Reach::kSmall,
                                        .has_rows = false,
                                        .span = kNoSpan,
                                        .lower = lower_statistics};
constinit const Rule rules::kInverseStd{.name = "inverse deviation",
                                        .reach = Reach::kSmall,
                                        .has_rows = false,
                                        .span = kNoSpan,
                                        .lower = lower_inverse_std};
constinit const Rule rules::kNormalise{.name = "normalise",
                                       .may_be_in = true,
                                       .span = "norm apply",
                                       .takes_tail = true,
                                       .is_tail = true,
                                       .lower = lower_tail,
                                       .through = through_batch_norm,
                                       .parameters = on_the_way};
constinit const Rule rules::kNormSums{.name = "norm sums",
                                      .reach = Reach::kWhole,
                                      .has_rows = false,
                                      .may_be_in = true,
                                      .span = "norm statistics",
                                      .sums_gradient = true,
                                      .lower = lower_norm_sums};
constinit const Rule rules::kNormBackward{
    .name = "norm backward", .may_be_in = true, .lower = lower_norm_backward};
constinit const Rule rules::kSumRanks{.name = "sum over ranks",
                                      .reach = Reach::kRanks,
                                      .has_rows = false,
                                      .span = kNoSpan,
                                      .lower = ask_for<RankWork::kSumRanks>};

}  // namespace atl
