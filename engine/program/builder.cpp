#include "engine/program/builder.hpp"

#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "engine/exchange/halo_exchange.hpp"
#include "engine/program/operations/rules.hpp"

namespace atl {

namespace {

// Numbers that key dropout outside of layers, behind those of all layers.
constexpr int kInputSite = 254;
constexpr int kHeadSite = 255;

}  // namespace

Builder::Builder(Pass pass, std::int64_t features, AlgebraChoice algebra, double input_dropout,
                 EdgeCounts edges, bool trains_nodes)
    : pass_(pass),
      algebra_(std::move(algebra)),
      has_constants_(input_dropout == 0 && !trains_nodes),
      edges_(edges) {
  program_.scopes.push_back({Scope::Kind::kInput, 0, Direction::kForward});
  input_ = append({.rule = trains_nodes ? &rules::kNodeParameters : &rules::kFeatures,
                   .columns = features,
                   .constant = !trains_nodes});
  if (input_dropout == 0 || pass == Pass::kEvaluation) return;
  input_ = append(
      {.rule = &rules::kActivate,
       .inputs = {input_},
       .columns = features,
       .tail = {.activation = {.dropout = input_dropout, .stream = RandomStream::kInputDropout}}});
}

Builder::Builder(Pass pass, const Program& model, std::int64_t columns)
    : pass_(pass), has_constants_(false), decoder_(static_cast<int>(model.layers.size())) {
  program_.parameters = model.parameters;
  begin_decoder_layer();
  input_ = append({.rule = &rules::kEmbeddings, .columns = columns});
}

Value Builder::append(Operation operation) {
  trained_.push_back(operation.rule->is_trained ||
                     any_read(operation, [&](Value read) { return is_trained(read); }));
  return program_.append(std::move(operation));
}

bool Builder::is_trained(Value x) const { return trained_[static_cast<std::size_t>(x)]; }

void Builder::begin_layer(const std::string& convolution) {
  convolutions_.push_back(convolution);
  program_.layers.emplace_back();
  program_.scopes.push_back({Scope::Kind::kLayer, layer(), Direction::kForward});
}

void Builder::end_layer(Value output) {
  check_rows("end_layer", "output", output);
  program_.layers.back().output = output;
}

bool Builder::is_in_layer(std::size_t number) const {
  return !program_.scopes.empty() && program_.layers.size() == number + 1 &&
         program_.scopes.back().kind == Scope::Kind::kLayer;
}

std::int64_t Builder::columns(Value x) const {
  if (x < 0 || x >= program_.size()) {
    refuse("columns", fmt::format("x is {}; needed is a value of this model", described(x)));
  }
  return program_.at(x).columns;
}

void Builder::begin_head() {
  program_.scopes.push_back({Scope::Kind::kHead, -1, Direction::kForward});
}

void Builder::begin_decoder_layer() {
  const auto number = static_cast<int>(program_.scopes.size());
  program_.scopes.push_back({Scope::Kind::kDecoder, number, Direction::kForward});
}

std::string Builder::own(const std::string& name) const {
  switch (program_.scopes.back().kind) {
    case Scope::Kind::kInput:
      return "input." + name;
    case Scope::Kind::kHead:
      return "head." + name;
    case Scope::Kind::kDecoder:
      return fmt::format("decoder.{}.{}", program_.scopes.back().layer, name);
    default:
      return fmt::format("layers.{}.{}", layer(), name);
  }
}

Value Builder::parameter(const std::string& name, std::int64_t rows, std::int64_t columns,
                         Initialisation initialisation) {
  const Scope::Kind scope = program_.scopes.back().kind;
  const int owner = scope == Scope::Kind::kDecoder ? decoder_
                    : scope == Scope::Kind::kHead  ? layer() + 1
                                                   : layer();
  const std::string full = own(name);
  const auto is_it = [&](const DeclaredParameter& p) { return p.layer == owner && p.name == full; };
  if (std::ranges::any_of(program_.parameters, is_it)) {
    fail_option("{}: {} is declared twice; every parameter needs a name of its own", place(), full);
  }
  program_.parameters.push_back({full, owner, rows, columns, initialisation});
  return append({.rule = &rules::kParameter,
                 .columns = columns,
                 .parameter = static_cast<int>(program_.parameters.size()) - 1});
}

Value Builder::weight(const std::string& name, Value x, std::int64_t columns) {
  check_count("weight", "columns", columns);
  return parameter(name, this->columns(x), columns, Initialisation::kGlorotUniform);
}

Value Builder::stacked_weight(const std::string& name, std::int64_t count, Value x,
                              std::int64_t columns) {
  check_count("stacked_weight", "count", count);
  check_count("stacked_weight", "columns", columns);
  const Value weight =
      parameter(name, count * this->columns(x), columns, Initialisation::kGlorotUniform);
  program_.parameters.back().stacked = count;
  return weight;
}

Value Builder::composed_weight(const std::string& name, std::int64_t count, std::int64_t bases,
                               Value x, std::int64_t columns) {
  check_count("composed_weight", "count", count);
  const Value base = stacked_weight("bases", bases, x, columns);
  const Value coefficients =
      parameter("coefficients", count, bases, Initialisation::kGlorotUniform);
  const Value weight = parameter(name, count * this->columns(x), columns, Initialisation::kZeros);
  program_.parameters.back().stacked = count;
  program_.parameters.back().composition = {.coefficients = program_.at(coefficients).parameter,
                                            .bases = program_.at(base).parameter};
  return weight;
}

Value Builder::linear(Value x, Value weight) {
  check_product(x, weight);
  return append_product(x, weight);
}

Value Builder::append_product(Value x, Value weight) {
  return append({.rule = &rules::kLinear,
                 .inputs = {x, weight},
                 .columns = columns(weight),
                 .parameter = program_.at(weight).parameter,
                 .attributes = Product{}});
}

Value Builder::linear_by_type(Value x, std::span<const std::int64_t> widths, std::int64_t columns) {
  check_rows("linear_by_type", "x", x);
  if (is_trained(x)) {
    fail_option(
        "--input-layer typed: the rows of --features trained are parameters of each node; nothing "
        "is left for a type to add; use linear, activated or none");
  }
  if (program_.scopes.back().kind != Scope::Kind::kInput) {
    refuse("linear_by_type", "only what comes before the first layer may read types of nodes");
  }
  const std::int64_t types = std::ssize(widths);
  const std::int64_t rows = std::accumulate(widths.begin(), widths.end(), std::int64_t{0});
  const Value weight = parameter("weight", rows, columns, Initialisation::kGlorotUniform);
  program_.parameters.back().stacked = types;
  if (rows != types * this->columns(x)) {
    program_.parameters.back().heights.assign(widths.begin(), widths.end());
  }
  // Not 0, from where ReLU would lead nowhere: it is all that nodes of a type without features
  // have.
  const Value bias = parameter("bias", types, columns, Initialisation::kGlorotUniform);
  program_.parameters.back().stacked = types;
  const Value sorted = append({.rule = &rules::kSortByType,
                               .inputs = {x},
                               .columns = this->columns(x),
                               .constant = is_constant(x),
                               .attributes = SortByType{}});
  const Value products = append({.rule = &rules::kLinearByType,
                                 .inputs = {sorted, weight, bias},
                                 .columns = columns,
                                 .parameter = program_.at(weight).parameter,
                                 .second_parameter = program_.at(bias).parameter});
  return append({.rule = &rules::kSortByType,
                 .inputs = {products},
                 .columns = columns,
                 .attributes = SortByType{.back = true}});
}

bool Builder::is_constant(Value x) const { return has_constants_ && program_.at(x).constant; }

int Builder::next_channel() {
  if (channels_ == kMostChannels) {
    fail_option("--model, --layers: the model aggregates more than {} times; allowed are {}",
                kMostChannels, kMostChannels);
  }
  return channels_++;
}

Value Builder::aggregate(Normalisation normalisation, Value x) {
  if (normalisation == Normalisation::kEdges || normalisation == Normalisation::kRelations) {
    refuse("aggregate", fmt::format("normalisation is {}; see attend, pool, aggregate_edges and "
                                    "aggregate_relations",
                                    to_string(normalisation)));
  }
  check_rows("aggregate", "x", x);
  return append_aggregate(
      {.rule = &rules::kAggregate, .messages = {.normalisation = normalisation}}, x);
}

Value Builder::aggregate_relations(Value x, std::int64_t relations) {
  check_rows("aggregate_relations", "x", x);
  check_count("aggregate_relations", "relations", relations, edges_.relations);
  return append_aggregate({.rule = &rules::kAggregateRelations,
                           .messages = {.normalisation = Normalisation::kRelations},
                           .attributes = Relations{relations},
                           .packed = true},
                          x);
}

Value Builder::pool(const PoolSpec& spec, Value x, Value sharpness) {
  check_rows("pool", "x", x);
  if (sharpness != kNoValue) {
    check_parameter("pool", "sharpness", sharpness, 1, 1);
    if (spec.kind == PoolKind::kMaximum) refuse("pool", "a maximum has no sharpness to train");
  }
  Operation op{.rule = &rules::kPool,
               .messages = {.normalisation = Normalisation::kEdges},
               .attributes = spec};
  if (sharpness == kNoValue) return append_aggregate(op, x);
  op.parameter = program_.at(sharpness).parameter;
  return append_aggregate(op, x, sharpness);
}

Value Builder::append_aggregate(Operation op, Value x, Value parameter) {
  check_in_layer(op.rule->name);
  op.messages.channel = next_channel();
  const bool constant = is_constant(x) && parameter == kNoValue;
  ProgramLayer& made = program_.layers.back();
  made.input_is_constant = constant;
  made.algebra.cache_aggregate = constant && keeps_aggregates();
  op.constant = made.algebra.cache_aggregate;
  const auto* relations = std::get_if<Relations>(&op.attributes);
  op.columns = columns(x) * (relations == nullptr ? 1 : relations->count);
  op.inputs = {with_halo(x)};
  if (parameter != kNoValue) op.inputs.push_back(parameter);
  return append(std::move(op));
}

Value Builder::with_halo(Value x) {
  if (!program_.at(x).rule->is_leaf) return x;
  if (copy_ == kNoValue) {
    copy_ = append(
        {.rule = &rules::kCopy, .inputs = {x}, .columns = columns(x), .constant = is_constant(x)});
  }
  return copy_;
}

Value Builder::aggregate_edges(Value x, std::int64_t features) {
  check_in_layer("aggregate_edges");
  check_rows("aggregate_edges", "x", x);
  const int channel = next_channel();
  const std::int64_t columns = this->columns(x);
  const Value weight = edge_weight(features, x);
  const Value bias = parameter("edge_bias", 1, columns, Initialisation::kZeros);
  return append({.rule = &rules::kAggregateEdges,
                 .inputs = {with_halo(x), weight, bias},
                 .columns = columns,
                 .parameter = program_.at(weight).parameter,
                 .second_parameter = program_.at(bias).parameter,
                 .messages = {.normalisation = Normalisation::kEdges, .channel = channel}});
}

Value Builder::edge_weight(std::int64_t features, Value x) {
  check_rows("edge_weight", "x", x);
  check_count("edge_weight", "features", features, edges_.features);
  return parameter("edge_weight", features, columns(x), Initialisation::kGlorotUniform);
}

Value Builder::edge_scores(AttentionOptions options, Value z, std::int64_t features) {
  if (options.score != AttentionScore::kAdditive) {
    refuse("edge_scores", fmt::format("score is {}; needed is additive", to_string(options.score)));
  }
  const Value weight = edge_weight(features, z);
  const Value vector = head_vector("attention_edge", z, options.heads);
  const Value both = parameter("edge_scores", features, options.heads, Initialisation::kZeros);
  program_.parameters.back().composition = {.coefficients = program_.at(vector).parameter,
                                            .bases = program_.at(weight).parameter,
                                            .per_head = true};
  return append({.rule = &rules::kEdgeScores,
                 .inputs = {both},
                 .columns = options.heads,
                 .parameter = program_.at(both).parameter,
                 .attributes = options,
                 .wide = true});
}

Value Builder::attend(AttentionOptions options, Value z, Value t, Value vector, Value of_edges) {
  check_attention(options, z, t, vector, of_edges);
  const int channel = next_channel();
  if (pass_ == Pass::kEvaluation) options.dropout = 0;
  options.site = layer();
  Operation op{.rule = &rules::kAttend,
               .inputs = {z, t},
               .columns = columns(z),
               .messages = {.normalisation = Normalisation::kEdges, .channel = channel},
               .attributes = options};
  if (options.score != AttentionScore::kDot) {
    op.parameter = program_.at(vector).parameter;
    op.inputs.push_back(vector);
  }
  if (options.score == AttentionScore::kAdditive) {
    op.inputs.push_back(head_dots(z, vector, options.heads));
  }
  if (of_edges == kNoValue) return append(std::move(op));
  if (options.score == AttentionScore::kGatv2) {
    op.second_parameter = program_.at(of_edges).parameter;
  }
  op.inputs.push_back(of_edges);
  return append(std::move(op));
}

Value Builder::head_vector(const std::string& name, Value x, int heads) {
  check_rows("head_vector", "x", x);
  check_heads("head_vector", x, heads);
  return parameter(name, heads, columns(x) / heads, Initialisation::kGlorotUniform);
}

Value Builder::head_dots(Value x, Value vector, int heads) {
  check_rows("head_dots", "x", x);
  check_heads("head_dots", x, heads);
  check_parameter("head_dots", "vector", vector, heads, columns(x) / heads);
  return append({.rule = &rules::kHeadDots,
                 .inputs = {x, vector},
                 .columns = heads,
                 .parameter = program_.at(vector).parameter,
                 .wide = true});
}

Value Builder::head_linear(const std::string& name, Value x, int heads) {
  check_rows("head_linear", "x", x);
  check_heads("head_linear", x, heads);
  const Value weight =
      parameter(name, columns(x), columns(x) / heads, Initialisation::kGlorotUniform);
  program_.parameters.back().stacked = heads;
  return append({.rule = &rules::kHeadLinear,
                 .inputs = {x, weight},
                 .columns = columns(x),
                 .parameter = program_.at(weight).parameter,
                 .attributes = HeadProduct{heads}});
}

Value Builder::head_mean(Value x, int heads) {
  check_rows("head_mean", "x", x);
  check_heads("head_mean", x, heads);
  if (heads == 1) return x;
  return append({.rule = &rules::kHeadMean, .inputs = {x}, .columns = columns(x) / heads});
}

Value Builder::propagate(Normalisation normalisation, Value x, Value weight) {
  check_rows("propagate", "x", x);
  check_parameter("propagate", "weight", weight, columns(x), kAnyCount);
  check_in_layer("propagate");
  const MultiplyOrder order = choose_order(x, weight);
  const bool aggregates_first = order == MultiplyOrder::kAggregateFirst;
  const Value first = aggregates_first ? aggregate(normalisation, x) : linear(x, weight);
  const Value result = aggregates_first ? linear(first, weight) : aggregate(normalisation, first);
  ProgramLayer& made = program_.layers.back();
  made.algebra.order = order;
  made.order_is_free = true;
  made.input_is_constant = is_constant(x);
  return result;
}

bool Builder::keeps_aggregates() const {
  return algebra_.planned.empty()
             ? algebra_.cache_aggregate
             : algebra_.planned.at(static_cast<std::size_t>(layer())).cache_aggregate;
}

MultiplyOrder Builder::choose_order(Value x, Value weight) const {
  if (!algebra_.planned.empty())
    return algebra_.planned.at(static_cast<std::size_t>(layer())).order;
  if (algebra_.choice == OrderChoice::kMultiplyFirst) return MultiplyOrder::kMultiplyFirst;
  if (algebra_.choice == OrderChoice::kAggregateFirst) return MultiplyOrder::kAggregateFirst;
  const std::int64_t in = columns(x);
  const std::int64_t multiply_first = 2 * columns(weight);
  const std::int64_t aggregate_first =
      (is_constant(x) && keeps_aggregates() ? 0 : in) + (is_trained(x) ? in : 0);
  return aggregate_first < multiply_first ? MultiplyOrder::kAggregateFirst
                                          : MultiplyOrder::kMultiplyFirst;
}

Value Builder::combine(float u, Value a, float v, Value b) {
  check_same_columns("combine", a, b);
  return append({.rule = &rules::kCombine,
                 .inputs = {a, b},
                 .columns = columns(a),
                 .attributes = Combination{u, v}});
}

Value Builder::linear_of_all(const std::string& name, const std::vector<Value>& x,
                             std::int64_t columns) {
  check_count("linear_of_all", "count of values", static_cast<std::int64_t>(x.size()));
  check_count("linear_of_all", "columns", columns);
  std::int64_t rows = 0;
  for (const Value part : x) {
    check_rows("linear_of_all", "x", part);
    rows += this->columns(part);
  }
  const Value all = parameter(name, rows, columns, Initialisation::kGlorotUniform);
  Value sum = kNoValue;
  std::int64_t row = 0;
  for (const Value part : x) {
    const Value product = append_product(part, all);
    program_.at(product).attributes = Product{.first_row = row};
    row += this->columns(part);
    sum = sum == kNoValue ? product : add(sum, product);
  }
  return sum;
}

Value Builder::bias(Value x, const std::string& name) {
  check_rows("bias", "x", x);
  const Value b = parameter(name, 1, columns(x), Initialisation::kZeros);
  return append({.rule = &rules::kBias,
                 .inputs = {x},
                 .columns = columns(x),
                 .parameter = program_.at(b).parameter,
                 .tail = {.bias = b}});
}

Value Builder::activate(Value x, ActivationFunction function, double dropout) {
  check_rows("activate", "x", x);
  check_dropout("activate", dropout);
  if (pass_ == Pass::kEvaluation) dropout = 0;
  const Scope& scope = program_.scopes.back();
  const bool decodes = scope.kind == Scope::Kind::kDecoder;
  const int site = decodes                             ? scope.layer
                   : scope.kind == Scope::Kind::kInput ? kInputSite
                   : scope.kind == Scope::Kind::kHead  ? kHeadSite
                                                       : layer();
  const RandomStream stream = decodes ? RandomStream::kDecoderDropout : RandomStream::kDropout;
  const Activation activation{
      .function = function, .dropout = dropout, .stream = stream, .site = site};
  if (activation.absent()) return x;
  return append({.rule = &rules::kActivate,
                 .inputs = {x},
                 .columns = columns(x),
                 .tail = {.activation = activation}});
}

Value Builder::maximum(Value a, Value b) {
  check_same_columns("maximum", a, b);
  return append({.rule = &rules::kMaximum, .inputs = {a, b}, .columns = columns(a)});
}

Value Builder::scalar(const std::string& name, Initialisation initialisation) {
  if (initialisation != Initialisation::kZeros && initialisation != Initialisation::kOnes) {
    refuse("scalar", fmt::format("{} starts at random; allowed are 0, 1 and a number", name));
  }
  return parameter(name, 1, 1, initialisation);
}

Value Builder::scalar(const std::string& name, double start) {
  const Value made = parameter(name, 1, 1, Initialisation::kStart);
  program_.parameters.back().start = start;
  return made;
}

Value Builder::scale(Value x, Value scalar) {
  check_rows("scale", "x", x);
  check_parameter("scale", "scalar", scalar, 1, 1);
  return append({.rule = &rules::kScale,
                 .inputs = {x, scalar},
                 .columns = columns(x),
                 .parameter = program_.at(scalar).parameter});
}

Value Builder::scale_by_degree(Value x, DegreeRoot root, bool with_self) {
  check_rows("scale_by_degree", "x", x);
  return append({.rule = &rules::kScaleByDegree,
                 .inputs = {x},
                 .columns = columns(x),
                 .attributes = DegreeScale{root, with_self}});
}

Value Builder::own_operation(const Rule& rule, std::vector<Value> inputs, std::int64_t columns,
                             std::vector<double> numbers) {
  check_own(rule, inputs);
  check_count(rule.name, "columns", columns);
  return append({.rule = &rule,
                 .inputs = std::move(inputs),
                 .columns = columns,
                 .attributes = OwnNumbers{std::move(numbers)}});
}

Value Builder::layer_norm(Value x, const std::string& name) {
  check_rows("layer_norm", "x", x);
  const Value gamma = parameter(name + ".weight", 1, columns(x), Initialisation::kOnes);
  const Value beta = parameter(name + ".bias", 1, columns(x), Initialisation::kZeros);
  return append({.rule = &rules::kLayerNorm,
                 .inputs = {x, gamma, beta},
                 .columns = columns(x),
                 .parameter = program_.at(gamma).parameter,
                 .second_parameter = program_.at(beta).parameter});
}

Value Builder::batch_norm(Value x, const std::string& name) {
  check_rows("batch_norm", "x", x);
  const Value gamma = parameter(name + ".weight", 1, columns(x), Initialisation::kOnes);
  const Value beta = parameter(name + ".bias", 1, columns(x), Initialisation::kZeros);
  program_.norms.push_back({own(name), columns(x)});
  const int number = static_cast<int>(program_.norms.size()) - 1;
  Operation part{.columns = columns(x),
                 .parameter = program_.at(gamma).parameter,
                 .second_parameter = program_.at(beta).parameter,
                 .attributes = BatchNorm{number}};
  const auto append_part = [&](const Rule& rule, std::vector<Value> inputs) {
    part.rule = &rule;
    part.inputs = std::move(inputs);
    return append(part);
  };
  Value statistics = kNoValue;
  if (pass_ == Pass::kTraining) {
    const Value moments = append_part(rules::kMoments, {x});
    const Value sums = append_part(rules::kSumRanks, {moments});
    statistics = append_part(rules::kStatistics, {sums});
  } else {
    statistics = append_part(rules::kInverseStd, {});
  }
  part.tail = {.statistics = statistics, .norm = number, .gamma = gamma, .bias = beta};
  return append_part(rules::kNormalise, {x});
}

Program Builder::finish(Value logits, Value embeddings) {
  check_rows("finish", "logits", logits);
  check_rows("finish", "embeddings", embeddings);
  check_readers();
  program_.logits = logits;
  program_.embeddings = embeddings;
  // Training has no use for its logits once it has their gradient.
  if (pass_ == Pass::kEvaluation) {
    program_.outputs = {logits};
    if (embeddings != input_) program_.outputs.push_back(embeddings);
  }
  return std::move(program_);
}

Value Builder::pair_products() {
  return append({.rule = &rules::kPairProducts, .inputs = {input_}, .columns = columns(input_)});
}

Value Builder::pair_dots() {
  return append(
      {.rule = &rules::kPairDots, .inputs = {input_}, .columns = 1, .packed = true, .wide = true});
}

Value Builder::scores(Value x) {
  check_rows("scores", "x", x);
  return append({.rule = &rules::kScores,
                 .inputs = {x},
                 .columns = columns(x),
                 .packed = true,
                 .wide = true});
}

Program Builder::finish_pairs(Value scores) {
  program_.logits = scores;
  program_.embeddings = input_;
  if (pass_ == Pass::kEvaluation) program_.outputs = {scores};
  return std::move(program_);
}

void declare_node_parameters(Program& program, std::int64_t nodes) {
  for (Operation& op : program.operations) {
    if (!op.is(rules::kNodeParameters)) continue;
    op.parameter = static_cast<int>(program.parameters.size());
    program.parameters.push_back({.name = "input.nodes",
                                  .layer = -1,
                                  .rows = nodes,
                                  .columns = op.columns,
                                  .initialisation = Initialisation::kGlorotUniform,
                                  .stacked = nodes,
                                  .per_node = true});
  }
}

}  // namespace atl
