// Pooling of neighbours (kernels/pool.hpp).
#include <fmt/format.h>

#include "engine/program/operations/neighbourhood.hpp"
#include "engine/program/operations/rules.hpp"

namespace atl {

namespace {

PoolSpec pool_spec(const Views& views) {
  PoolSpec spec = views.op().as<PoolSpec>();
  if (views.op().parameter >= 0) spec.trained = views.parameter(views.op().parameter).data;
  return spec;
}

void lower_pool(const Views& views, Requests& requests) {
  requests.take(kernels::Pool{views.matrix(), views.range(), views.whole(views.input(0)),
                              pool_spec(views), views.inner(views.value())});
}

// Reads y, x.
void lower_pool_slope(const Views& views, Requests& requests) {
  requests.take(kernels::PoolSlope{views.matrix(), views.range(), views.whole(views.input(1)),
                                   views.inner(views.input(0)), pool_spec(views),
                                   views.inner(views.value())});
}

// Reads dy, y, x.
void lower_pool_targets(const Views& views, Requests& requests) {
  requests.take(kernels::PoolBackwardTargets{
      views.matrix(), views.range(), views.whole(views.input(2)), views.inner(views.input(1)),
      views.inner(views.input(0)), pool_spec(views), views.inner(views.value())});
}

// Reads g, y, x.
void send_pool(const Views& views, const Sources& sources, Requests& requests) {
  const auto input = [&](std::size_t i) { return views.input(sources.first + i); };
  requests.take(kernels::PoolBackwardSources{views.matrix(), views.source_edges(), sources.rows,
                                             views.whole(input(2)), views.inner(input(1)),
                                             views.inner(input(0)), pool_spec(views), sources.to});
}

Value through_pool(Gradients& gradients, Value reader, std::size_t i) {
  if (i > 0) return kNoValue;  // the sharpness has no rows
  const Operation pool = gradients.at(reader);
  const Value x = pool.inputs[0];
  Operation targets = part_of(pool, rules::kPoolTargets);
  targets.inputs = {gradients.of(reader), reader, x};
  targets.wide = true;
  const Value g = gradients.append(targets);
  return append_sources(gradients, pool, rules::kPoolHalo, rules::kPoolSources, {g, reader, x});
}

void add_sharpness_gradient(Gradients& gradients, Value v) {
  const Operation pool = gradients.at(v);
  if (pool.parameter < 0) return;
  Operation slope = part_of(pool, rules::kPoolSlope);
  slope.inputs = {v, pool.inputs[0]};
  gradients.append({.rule = &rules::kScaleGradient,
                    .inputs = {gradients.append(slope), gradients.of(v)},
                    .columns = pool.columns,
                    .parameter = pool.parameter});
}

void print_pool(const Operation& op, std::string& text) {
  const auto& spec = op.as<PoolSpec>();
  text += fmt::format(" {}", to_string(spec.kind));
  if (spec.kind == PoolKind::kSoftmax) text += fmt::format(" of {} x", spec.sharpness);
  if (spec.kind == PoolKind::kPowerMean) text += fmt::format(" of {}", spec.sharpness);
  print_channel(op, text);
}

}  // namespace

constinit const Rule rules::kPool{.name = "pool",
                                  .reach = Reach::kHalo,
                                  .part = Part::kForward,
                                  .keeps_halo = true,
                                  .keeps_result = true,
                                  .lower = lower_pool,
                                  .through = through_pool,
                                  .parameters = add_sharpness_gradient,
                                  .print = print_pool};
constinit const Rule rules::kPoolTargets{
    .name = "pool backward, targets", .part = Part::kTargets, .lower = lower_pool_targets};
constinit const Rule rules::kPoolSlope{
    .name = "pool slope", .part = Part::kTerms, .lower = lower_pool_slope};
constinit const Rule rules::kPoolHalo = halo_rule<send_pool>("pool backward, halo rows");
constinit const Rule rules::kPoolSources = sources_rule<send_pool>("pool backward, sources");

}  // namespace atl
