#include "engine/program/builder.hpp"

#include "base/error.hpp"
#include "engine/exchange/halo_exchange.hpp"

namespace atl {

Builder::Builder(Pass pass, std::int64_t features, std::vector<LayerOrder> orders,
                 double input_dropout)
    : pass_(pass), orders_(std::move(orders)), has_constants_(input_dropout == 0) {
  program_.scopes.push_back({Scope::Kind::kInput, 0, Direction::kForward});
  input_ = append({.kind = OpKind::kFeatures, .columns = features, .constant = true});
  if (input_dropout == 0 || pass == Pass::kEvaluation) return;
  input_ = append(
      {.kind = OpKind::kActivate,
       .inputs = {input_},
       .columns = features,
       .tail = {.activation = {.dropout = input_dropout, .stream = RandomStream::kInputDropout}}});
}

Value Builder::append(Operation operation) {
  operation.scope = static_cast<int>(program_.scopes.size()) - 1;
  program_.operations.push_back(std::move(operation));
  return program_.size() - 1;
}

void Builder::begin_layer(int layer) {
  layer_ = layer;
  program_.scopes.push_back({Scope::Kind::kLayer, layer, Direction::kForward});
}

Value Builder::parameter(const std::string& name, std::int64_t rows, std::int64_t columns,
                         Initialisation initialisation) {
  program_.parameters.push_back(
      {fmt::format("layers.{}.{}", layer_, name), layer_, rows, columns, initialisation});
  return append({.kind = OpKind::kParameter,
                 .columns = columns,
                 .parameter = static_cast<int>(program_.parameters.size()) - 1});
}

Value Builder::weight(const std::string& name, Value x, std::int64_t columns) {
  return parameter(name, this->columns(x), columns, Initialisation::kGlorotUniform);
}

Value Builder::linear(Value x, Value weight) {
  return append({.kind = OpKind::kLinear,
                 .inputs = {x, weight},
                 .columns = columns(weight),
                 .parameter = program_.at(weight).parameter});
}

bool Builder::is_constant(Value x) const { return has_constants_ && program_.at(x).constant; }

Value Builder::aggregate(Normalisation normalisation, Value x) {
  ATOLL_ASSERT(channels_ < kMostChannels);
  const bool constant = is_constant(x);
  if (program_.at(x).kind == OpKind::kFeatures) {
    if (copy_ == kNoValue) {
      copy_ = append(
          {.kind = OpKind::kCopy, .inputs = {x}, .columns = columns(x), .constant = constant});
    }
    x = copy_;
  }
  return append(
      {.kind = OpKind::kAggregate,
       .inputs = {x},
       .columns = columns(x),
       .constant = constant && orders_.at(static_cast<std::size_t>(layer_)).cache_aggregate,
       .normalisation = normalisation,
       .channel = channels_++});
}

Value Builder::propagate(Normalisation normalisation, Value x, Value weight) {
  if (orders_.at(static_cast<std::size_t>(layer_)).order == MultiplyOrder::kAggregateFirst) {
    const Value aggregated = aggregate(normalisation, x);
    return linear(aggregated, weight);
  }
  const Value product = linear(x, weight);
  return aggregate(normalisation, product);
}

Value Builder::combine(float u, Value a, float v, Value b) {
  ATOLL_ASSERT(columns(a) == columns(b));
  return append({.kind = OpKind::kCombine,
                 .inputs = {a, b},
                 .columns = columns(a),
                 .first_factor = u,
                 .second_factor = v});
}

Value Builder::bias(Value x) {
  const Value b = parameter("bias", 1, columns(x), Initialisation::kZeros);
  return append({.kind = OpKind::kBias,
                 .inputs = {x},
                 .columns = columns(x),
                 .parameter = program_.at(b).parameter,
                 .tail = {.bias = b}});
}

Value Builder::relu_dropout(Value x, double dropout) {
  if (pass_ == Pass::kEvaluation) dropout = 0;
  return append({.kind = OpKind::kActivate,
                 .inputs = {x},
                 .columns = columns(x),
                 .tail = {.activation = {.relu = true, .dropout = dropout, .site = layer_}}});
}

Value Builder::layer_norm(Value x) {
  const Value gamma = parameter("norm.weight", 1, columns(x), Initialisation::kOnes);
  const Value beta = parameter("norm.bias", 1, columns(x), Initialisation::kZeros);
  return append({.kind = OpKind::kLayerNorm,
                 .inputs = {x, gamma, beta},
                 .columns = columns(x),
                 .parameter = program_.at(gamma).parameter,
                 .second_parameter = program_.at(beta).parameter});
}

Value Builder::batch_norm(Value x) {
  const Value gamma = parameter("norm.weight", 1, columns(x), Initialisation::kOnes);
  const Value beta = parameter("norm.bias", 1, columns(x), Initialisation::kZeros);
  program_.norms.push_back({fmt::format("layers.{}.norm", layer_), columns(x)});
  Operation part{.columns = columns(x),
                 .parameter = program_.at(gamma).parameter,
                 .second_parameter = program_.at(beta).parameter,
                 .norm = static_cast<int>(program_.norms.size()) - 1};
  const auto append_part = [&](OpKind kind, std::vector<Value> inputs) {
    part.kind = kind;
    part.inputs = std::move(inputs);
    return append(part);
  };
  Value statistics = kNoValue;
  if (pass_ == Pass::kTraining) {
    const Value moments = append_part(OpKind::kMoments, {x});
    const Value sums = append_part(OpKind::kSumRanks, {moments});
    statistics = append_part(OpKind::kStatistics, {sums});
  } else {
    statistics = append_part(OpKind::kInverseStd, {});
  }
  part.tail = {.statistics = statistics, .gamma = gamma, .bias = beta};
  return append_part(OpKind::kNormalise, {x});
}

Program Builder::finish() {
  // Training has no use for its logits once it has their gradient.
  if (pass_ == Pass::kEvaluation) {
    program_.outputs = {program_.logits()};
    const std::size_t layers = program_.layer_outputs.size();
    if (layers > 1) program_.outputs.push_back(program_.layer_outputs[layers - 2]);
  }
  return std::move(program_);
}

}  // namespace atl
