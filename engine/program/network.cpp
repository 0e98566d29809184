#include "engine/program/network.hpp"

#include <algorithm>
#include <cstring>

#include "engine/exchange/halo_return.hpp"
#include "engine/exchange/relation_operators.hpp"

namespace atl {

namespace {

constexpr double kEpsilon = 1e-5;  // of norms
constexpr double kMomentum = 0.1;  // of running statistics

// What the forward pass computes: its operations without the copies beside them.
std::vector<Operation> forward_operations(const Program& program) {
  std::vector<Operation> operations;
  std::vector<Value> places(program.operations.size(), kNoValue);
  for (Value v = 0; v < program.forward_end(); ++v) {
    Operation op = program.at(v);
    if (traits_of(op.kind).reach == Reach::kBeside) continue;
    for_each_read(op, [&](Value& read) { read = places[static_cast<std::size_t>(read)]; });
    places[static_cast<std::size_t>(v)] = static_cast<Value>(operations.size());
    operations.push_back(std::move(op));
  }
  return operations;
}

RowRange weight_range(const Program& program, const Operation& op) {
  return {op.first_row, op.first_row + weight_rows(program, op)};
}

// Means of features over the in-edges of each inner row but those from itself; 0 where it has no
// others.
std::vector<float> mean_edge_features(const LocalGraphView& graph) {
  const CsrView& edges = graph.forward.csr;
  const std::int64_t columns = graph.forward.edge_feature_columns;
  std::vector<float> means;
  means.reserve(static_cast<std::size_t>(graph.inner() * columns));
  std::vector<double> sums(static_cast<std::size_t>(columns));
  for (std::int64_t i = 0; i < graph.inner(); ++i) {
    std::ranges::fill(sums, 0.0);
    std::int64_t others = 0;
    for (std::int64_t e = edges.row_ptr[i]; e < edges.row_ptr[i + 1]; ++e) {
      if (edges.col_idx[e] == i) continue;
      ++others;
      const auto features = graph.forward.edge_features.subspan(
          static_cast<std::size_t>(e * columns), static_cast<std::size_t>(columns));
      for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += static_cast<double>(features[k]);
    }
    for (const double sum : sums) {
      means.push_back(others == 0 ? 0 : static_cast<float>(sum / static_cast<double>(others)));
    }
  }
  return means;
}

}  // namespace

EdgeFeatures::EdgeFeatures(const Rank& rank, ConstDeviceArray<float> values, std::int64_t columns,
                           DType parameters)
    : values_(std::move(values)), columns_(columns) {
  if (parameters == DType::kF32) return;
  const ConstMatrixView narrow = matrix();
  in_f64_ = Tensor(rank.backend, narrow.rows, columns, parameters);
  rank.backend.run(rank.queue, kernels::Convert{narrow, in_f64_.view()});
}

ConstMatrixView EdgeFeatures::matrix() const {
  if (in_f64_.rows() > 0) return in_f64_.view();
  const auto count = static_cast<std::int64_t>(values_.span().size());
  return {values_.span().data(), columns_ == 0 ? 0 : count / columns_, columns_, columns_,
          DType::kF32};
}

Network::Network(Program training, Program evaluation, const NetworkOptions& options,
                 const Rank& rank, const LocalGraphView& graph, ConstMatrixView features)
    : options_(options),
      rank_(rank),
      features_(features),
      // Libraries of devices are slow where rows start anywhere; a CPU arranges operands anew.
      parameters_(options.dtype, /*pads_operands=*/!rank.backend.host_accessible()) {
  for (const Operation& op : training.operations) {
    if (!op.needs_messages() || operators_.contains(op.normalisation)) continue;
    operators_[op.normalisation] = std::make_unique<GraphOperators>(
        rank.backend, rank.queue, graph, op.normalisation, options.recomputation, op.relations);
    if (op.constant) computed_halo_ = operators_[op.normalisation]->computed_halo();
  }
  if (reads_edge_features(training)) {
    edge_features_ =
        EdgeFeatures(rank, {rank.backend, rank.queue, graph.forward.edge_features},
                     graph.forward.edge_feature_columns, parameter_dtype(options.dtype));
  }
  if (reads_mean_edge_features(training)) {
    mean_edge_features_ =
        EdgeFeatures(rank, {rank.backend, rank.queue, mean_edge_features(graph)},
                     graph.forward.edge_feature_columns, parameter_dtype(options.dtype));
  }
  for (const Operation& op : training.operations) {
    const bool with_self = op.attention.with_self;
    if (op.kind != OpKind::kScaleByDegree || degree_factors_.contains(with_self)) continue;
    degree_factors_[with_self] = {rank.backend, rank.queue, graph, with_self};
  }
  if (reads_node_types(training)) type_rows_ = {rank.backend, rank.queue, graph.node_types};
  rows_ = {.inner = graph.inner(),
           .forward_halo = graph.forward.halo.halo_rows(),
           .backward_halo = graph.backward.halo.halo_rows(),
           .computed = computed_halo_ != nullptr ? computed_halo_->rows() : 0,
           .returned = graph.forward.halo.sent_rows(),
           .edges = graph.forward.csr.nnz()};
  central_ = {0, graph.central};
  central_edges_ = graph.forward.csr.row_ptr[graph.central];
  marginal_ = {graph.central, graph.inner()};
  for (const DeclaredParameter& p : training.parameters) {
    if (p.composition.present()) {
      parameters_.declare_composed(p.name, p.layer, p.rows, p.columns, p.composition);
    } else if (p.per_node) {
      parameters_.declare_per_node(p.name, graph.inner_ids, p.columns);
    } else {
      parameters_.declare(p.name, p.layer, p.rows, p.columns, p.initialisation, p.stacked, p.start,
                          p.heights);
    }
  }
  for (const DeclaredNorm& norm : training.norms) {
    norms_.push_back({.name = norm.name, .columns = norm.columns});
  }
  training_ = prepare(std::move(training));
  evaluation_ = prepare(std::move(evaluation));
  ATOLL_ASSERT(training_.layout.kept_elements == evaluation_.layout.kept_elements);
  // An evaluation is asked for its embeddings when it has run; in training they may be gone then.
  const Value embeddings = training_.program.embeddings;
  shares_forward_ =
      forward_operations(training_.program) == forward_operations(evaluation_.program) &&
      (training_.layout.places[static_cast<std::size_t>(embeddings)].is_nowhere() ||
       training_.ends[static_cast<std::size_t>(embeddings)] >=
           training_.schedule.instants[static_cast<std::size_t>(training_.program.logits)]);
  block_ = std::make_shared<Tensor>(1, 0, options.dtype);
  block_->reserve(std::max(training_.layout.elements, evaluation_.layout.elements));
}

Network::~Network() = default;

Network::Pass Network::prepare(Program program) const {
  Pass pass;
  pass.schedule = schedule(program);
  pass.layout = atl::allocate(program, pass.schedule, rows_, options_.sharing);
  pass.ends = last_instants(program, pass.schedule);
  pass.program = std::move(program);
  return pass;
}

std::int64_t Network::value_bytes(const Program& training) const {
  const Layout layout = atl::allocate(training, atl::schedule(training), rows_, options_.sharing);
  return std::max(layout.elements, evaluation_.layout.elements) * bytes_of(options_.dtype);
}

std::int64_t Network::host_bytes(const Program& training) const {
  return atl::allocate(training, atl::schedule(training), rows_, options_.sharing).host_elements *
         bytes_of(options_.dtype);
}

std::int64_t Network::bytes() const { return block_->bytes() + parameters_.bytes(); }

std::int64_t Network::buffer_bytes(const HaloExchange& training,
                                   const HaloExchange& evaluation) const {
  std::int64_t total = 0;
  const Program& program = training_.program;
  for (Value v = 0; v < program.size(); ++v) {
    const Operation& op = program.at(v);
    if (!op.needs_messages() || is_made_again(program, v)) continue;
    total += training.buffer_bytes(operator_of(op), op.message_columns(), options_.dtype);
  }
  for (const Operation& op : evaluation_.program.operations) {
    // A kept aggregate is exchanged once, and its buffer stays: training's.
    if (!op.needs_messages() || op.constant) continue;
    total += evaluation.buffer_bytes(operator_of(op), op.message_columns(), options_.dtype);
  }
  return total;
}

std::int64_t Network::activation_bytes() const {
  std::int64_t elements = 0;
  const Program& program = training_.program;
  const int loss = program.forward_end();
  const auto readers = readers_of(program);
  for (Value v = 0; v < loss; ++v) {
    const auto& by = readers[static_cast<std::size_t>(v)];
    const Place& place = training_.layout.places[static_cast<std::size_t>(v)];
    if (by.empty() || by.back() < loss || place.is_nowhere()) continue;
    elements += place.inner * program.row_elements(program.at(v));
  }
  return elements * bytes_of(options_.dtype);
}

void Network::allocate() {
  block_->allocate(rank_.backend);
  if (host_bytes() > 0) {
    copies_ = rank_.backend.make_copy_queue();
    host_values_ = allocate_staging(rank_.backend, host_bytes());
  }
  if (options_.poisons_dead_values && !rank_.backend.host_accessible()) {
    poison_ = allocate_staging(rank_.backend, block_->bytes());
    std::memset(poison_.get(), 0xFF, static_cast<std::size_t>(block_->bytes()));
  }
  parameters_.allocate(rank_.backend, rank_.queue, rank_.seed);
  if (parameters_.has_per_node()) node_parameters_ = parameters_.node_operand();
  for (NormState& norm : norms_) {
    for (DeviceArray<double>* array : {&norm.running_mean, &norm.running_variance, &norm.mean,
                                       &norm.inverse_std, &norm.running_inverse_std}) {
      *array = DeviceArray<double>(rank_.backend, norm.columns);
    }
    norm.sums = DeviceArray<double>(rank_.backend, 2 * norm.columns);
    const auto columns = static_cast<std::size_t>(norm.columns);
    norm.running_mean.upload(rank_.backend, rank_.queue, std::vector<double>(columns, 0.0));
    norm.running_variance.upload(rank_.backend, rank_.queue, std::vector<double>(columns, 1.0));
  }
  for (auto& [normalisation, operators] : operators_) {
    operators->connect(rank_.backend, rank_.queue, rank_.transport);
  }
}

const DistributedOperator& Network::operator_of(const Operation& aggregate) const {
  const GraphOperators& operators = *operators_.at(aggregate.normalisation);
  if (aggregate.direction == Direction::kBackward) return operators.backward();
  return aggregate.fetches_rest ? computed_halo_->fetched() : operators.forward();
}

std::vector<LayerMessages> Network::layer_messages() const {
  std::vector<LayerMessages> layers(training_.program.layers.size());
  for (const Operation& op : training_.program.operations) {
    if (!op.needs_messages()) continue;
    const Scope& scope = training_.program.scopes[static_cast<std::size_t>(op.scope)];
    LayerMessages& layer = layers[static_cast<std::size_t>(scope.layer)];
    const std::int64_t rows = operator_of(op).halo.sent_rows();
    const bool forward = op.direction == Direction::kForward;
    (forward ? layer.forward_rows : layer.backward_rows) = rows;
    if (!op.constant)
      (forward ? layer.forward_columns : layer.backward_columns) += op.message_columns();
  }
  return layers;
}

std::int64_t Network::halo_bytes_per_epoch() const {
  std::int64_t elements = 0;
  for (const LayerMessages& layer : layer_messages()) elements += layer.sent_elements();
  return elements * bytes_of(options_.dtype);
}

// --- views -------------------------------------------------------------------------------------

MatrixView Network::whole(const Pass& pass, Value value) const {
  const Place& place = pass.layout.places[static_cast<std::size_t>(value)];
  if (place.is_nowhere()) {
    const Operation& op = pass.program.at(value);
    // Without halo rows nothing is received into a copy.
    if (op.kind == OpKind::kCopy) return whole(pass, op.inputs[0]);
    if (op.kind != OpKind::kFeatures && op.kind != OpKind::kNodeParameters) {
      return {nullptr, 0, op.columns, op.stride(), options_.dtype};
    }
    const ConstMatrixView& leaf = op.kind == OpKind::kFeatures ? features_ : node_parameters_;
    // No operation writes it.
    return {const_cast<void*>(leaf.data), leaf.rows, leaf.cols, leaf.stride, leaf.dtype};
  }
  const Operation& op = pass.program.at(value);
  auto* const start = static_cast<std::byte*>(block_->view().data);
  return {start + place.offset * bytes_of(options_.dtype), place.inner + place.halo, op.columns,
          op.stride(), op.wide ? parameter_dtype(options_.dtype) : options_.dtype};
}

MatrixView Network::computed_rows(const Pass& pass, Value value) const {
  const Place& place = pass.layout.places[static_cast<std::size_t>(value)];
  MatrixView view = whole(pass, value);
  view.rows = place.rows();
  return view.rows_in({place.inner + place.halo, place.rows()});
}

RowRange Network::range_of(Rows rows) const {
  return rows == Rows::kMarginal  ? marginal_
         : rows == Rows::kCentral ? central_
                                  : RowRange{0, rows_.inner};
}

MatrixView Network::rows_of(const Pass& pass, Value value, Rows rows) const {
  if (rows == Rows::kComputed) return computed_rows(pass, value);
  return whole(pass, value).rows_in(range_of(rows));
}

std::span<const GlobalId> Network::ids_of(Rows rows) const {
  if (rows == Rows::kComputed) return computed_halo_->ids();
  const RowRange range = range_of(rows);
  return rank_.inner_ids.subspan(static_cast<std::size_t>(range.begin),
                                 static_cast<std::size_t>(range.size()));
}

ConstMatrixView Network::parameter_row(const Pass& pass, Value value) {
  return parameters_.value(pass.program.at(value).parameter);
}

DropoutSpec Network::dropout_of(const Execution& execution, const Activation& activation,
                                Rows rows) const {
  return {{rank_.seed, activation.stream, static_cast<std::uint8_t>(activation.site),
           static_cast<std::uint32_t>(execution.round.epoch)},
          dropout_threshold(activation.dropout),
          ids_of(rows),
          execution.round.state};
}

Epilogue Network::epilogue_of(const Execution& execution, const Operation& op, Rows rows) {
  const Pass& pass = execution.pass;
  const Tail& tail = op.tail;
  Epilogue epilogue;
  epilogue.function = tail.activation.function;
  epilogue.dropout = dropout_of(execution, tail.activation, rows);
  if (tail.bias != kNoValue) epilogue.beta = parameter_row(pass, tail.bias);
  if (tail.statistics == kNoValue) return epilogue;
  const NormState& norm = norms_[static_cast<std::size_t>(op.norm)];
  const bool running = pass.program.at(tail.statistics).kind == OpKind::kInverseStd;
  epilogue.gamma = parameter_row(pass, tail.gamma);
  epilogue.mean = running ? norm.running_mean.span() : norm.mean.span();
  epilogue.inv_std = running ? norm.running_inverse_std.span() : norm.inverse_std.span();
  return epilogue;
}

ActivationGradient Network::activation_of(const Execution& execution, const Call& call,
                                          Value from) const {
  const Pass& pass = execution.pass;
  const Activation& activation = pass.program.at(call.value).tail.activation;
  return {rows_of(pass, from, call.rows), rows_of(pass, call.value, call.rows), activation.function,
          dropout_of(execution, activation, call.rows)};
}

ActivationGradient Network::through_of(const Execution& execution, const Call& call) const {
  const Value from = execution.pass.program.at(call.value).through;
  return from == kNoValue ? ActivationGradient{} : activation_of(execution, call, from);
}

Channel Network::channel_of(const Pass& pass, Value value) const {
  const Operation& op = pass.program.at(value);
  return {.number = op.channel,
          .layer = pass.program.scope_of(value).layer,
          .direction = op.direction,
          .constant = op.constant};
}

// --- the interpreter ---------------------------------------------------------------------------

void Network::run_blocks(const Execution& execution, std::span<const Block> blocks) {
  const Pass& pass = execution.pass;
  const Round& round = execution.round;
  std::vector<std::unique_ptr<PendingExchange>> pending;
  for (const Block& block : blocks) {
    if (options_.poisons_dead_values) poison_dead(pass, block);
    const Scope& scope = pass.program.scopes[static_cast<std::size_t>(block.scope)];
    {
      std::optional<ScopedSpan> span;
      if (block.name != nullptr) {
        span.emplace(rank_.trace, block.name, TraceTag{round.epoch, scope.layer, -1, -1},
                     has_directions(scope) ? to_string(scope.direction) : "");
      }
      for (const Call& call : block.calls) run_call(execution, call);
    }
    for (const Value value : block.begins) {
      const Operation& op = pass.program.at(value);
      pending.push_back(execution.exchange->begin(operator_of(op), whole(pass, op.inputs[0]),
                                                  channel_of(pass, value), round));
      if (!round.overlap) pending.back()->finish();
    }
    if (block.finishes.empty()) continue;
    for (const auto& messages : pending) messages->finish();
    pending.clear();
  }
}

void Network::run_call(const Execution& execution, const Call& call) {
  const Pass& pass = execution.pass;
  const Round& round = execution.round;
  const Operation& op = pass.program.at(call.value);
  const auto input = [&](std::size_t i) {
    const bool elsewhere = i == 0 && call.rows == Rows::kComputed && op.computed_input != kNoValue;
    return elsewhere ? op.computed_input : op.inputs[i];
  };
  if (traits_of(op.kind).reach == Reach::kSmall) return run_small(execution, op);
  if (traits_of(op.kind).reach == Reach::kBeside) return run_copy(pass, call.value);
  if (call.rows == Rows::kPlaced) {
    for (const RowRange& range : computed_halo_->ranges()) {
      rank_.backend.run(rank_.queue,
                        kernels::Gemm{Transpose::kNo, whole(pass, input(0)).rows_in(range),
                                      Transpose::kNo, parameters_.operand(op.parameter), 0,
                                      whole(pass, call.value).rows_in(range)});
    }
    return;
  }
  const auto rows = [&](Value value) { return rows_of(pass, value, call.rows); };
  const auto gamma = [&] { return parameters_.value(op.parameter); };
  switch (op.kind) {
    case OpKind::kCopy:
      if (pass.layout.places[static_cast<std::size_t>(call.value)].is_nowhere()) return;
      rank_.backend.run(rank_.queue, kernels::ApplyEpilogue{rows(input(0)), {}, rows(call.value)});
      return;
    case OpKind::kLinear:
      rank_.backend.run(
          rank_.queue,
          kernels::Gemm{Transpose::kNo, rows(input(0)),
                        op.transposed ? Transpose::kYes : Transpose::kNo,
                        parameters_.operand(op.parameter).rows_in(weight_range(pass.program, op)),
                        op.added_to == kNoValue ? 0.0 : 1.0, rows(call.value),
                        epilogue_of(execution, op, call.rows)});
      return;
    case OpKind::kWeightGradient:
      rank_.backend.run(
          rank_.queue,
          kernels::Gemm{
              Transpose::kYes, rows(input(0)), Transpose::kNo, rows(input(1)), 1,
              parameters_.gradient(op.parameter).rows_in(weight_range(pass.program, op))});
      return;
    case OpKind::kNodeGradient:
      return run_node_gradient(rows(input(0)),
                               parameters_.gradient(op.parameter).rows_in(range_of(call.rows)));
    case OpKind::kSortByType:
    case OpKind::kLinearByType:
    case OpKind::kWeightGradientByType:
    case OpKind::kBiasGradientByType:
      return run_by_type(execution, call);
    case OpKind::kAggregate: {
      const DistributedOperator& by = operator_of(op);
      rank_.backend.run(rank_.queue,
                        kernels::Spmm{by.matrix, range_of(call.rows), whole(pass, input(0)),
                                      op.added_to == kNoValue ? 0.0 : 1.0,
                                      whole(pass, call.value).rows_in({0, rows_.inner}),
                                      epilogue_of(execution, op, call.rows)});
      return;
    }
    case OpKind::kEdgeScores:
    case OpKind::kEdgeScoresGradient:
      return run_edge_scores(execution, call);
    case OpKind::kAttend:
    case OpKind::kCoefficients:
    case OpKind::kAttendTargets:
    case OpKind::kAttendHalo:
    case OpKind::kAttendSources:
      run_attention(execution, call);
      return;
    case OpKind::kPool:
    case OpKind::kPoolTargets:
    case OpKind::kPoolSlope:
    case OpKind::kPoolHalo:
    case OpKind::kPoolSources:
      return run_pool(execution, call);
    case OpKind::kAggregateRelations:
    case OpKind::kRelationsHalo:
    case OpKind::kRelationsSources:
      run_relations(execution, call);
      return;
    case OpKind::kAggregateEdges:
    case OpKind::kEdgesHalo:
    case OpKind::kEdgesSources:
    case OpKind::kEdgesTerms:
      run_edges(execution, call);
      return;
    case OpKind::kHeadDots:
      rank_.backend.run(rank_.queue, kernels::HeadDots{rows(input(0)), row_vector(op.parameter),
                                                       rows(call.value)});
      return;
    case OpKind::kHeadDotsBackward:
      rank_.backend.run(rank_.queue, kernels::HeadDotsBackward{
                                         rows(input(0)), rows(input(1)), row_vector(op.parameter),
                                         rows(call.value), row_gradient(op.parameter)});
      return;
    case OpKind::kHeadMean:
      rank_.backend.run(rank_.queue, kernels::HeadMean{rows(input(0)), rows(call.value)});
      return;
    case OpKind::kHeadMeanBackward:
      rank_.backend.run(rank_.queue, kernels::HeadMeanBackward{rows(input(0)), rows(call.value)});
      return;
    case OpKind::kBias:
    case OpKind::kActivate:
    case OpKind::kNormalise:
      rank_.backend.run(
          rank_.queue, kernels::ApplyEpilogue{rows(input(0)), epilogue_of(execution, op, call.rows),
                                              rows(call.value)});
      return;
    case OpKind::kCombine:
      rank_.backend.run(rank_.queue, kernels::Combine{op.first_factor, rows(input(0)),
                                                      op.inputs.size() > 1 ? op.second_factor : 0,
                                                      rows(op.inputs.back()), rows(call.value)});
      return;
    case OpKind::kActivateBackward:
      rank_.backend.run(rank_.queue, kernels::ActivationBackward{
                                         rows(input(0)), activation_of(execution, call, input(1))});
      return;
    case OpKind::kMaximum:
      rank_.backend.run(rank_.queue,
                        kernels::Maximum{rows(input(0)), rows(input(1)), rows(call.value)});
      return;
    case OpKind::kMaximumGradient:
      rank_.backend.run(rank_.queue, kernels::MaximumBackward{
                                         rows(input(0)), rows(input(1)), rows(input(2)),
                                         op.of_second ? MaximumOf::kSecond : MaximumOf::kFirst,
                                         rows(call.value)});
      return;
    case OpKind::kScale:
      rank_.backend.run(rank_.queue, kernels::Scale{rows(input(0)), parameters_.value(op.parameter),
                                                    rows(call.value)});
      return;
    case OpKind::kScaleGradient:
      rank_.backend.run(rank_.queue,
                        kernels::Dot{rows(input(0)), rows(input(1)), /*accumulate=*/true,
                                     parameters_.gradient(op.parameter)});
      return;
    case OpKind::kScaleByDegree:
      degree_factors_.at(op.attention.with_self)
          .scale(rank_.backend, rank_.queue, op.degree_root,
                 whole(pass, input(0)).rows_in({0, rows_.inner}), range_of(call.rows),
                 rows(call.value));
      return;
    case OpKind::kBiasGradient:
      rank_.backend.run(rank_.queue, kernels::ColumnSums{rows(input(0)), /*accumulate=*/true,
                                                         parameters_.gradient(op.parameter),
                                                         through_of(execution, call)});
      return;
    case OpKind::kLayerNorm:
      rank_.backend.run(rank_.queue, kernels::LayerNorm{rows(input(0)), gamma(),
                                                        parameters_.value(op.second_parameter),
                                                        kEpsilon, rows(call.value)});
      return;
    case OpKind::kLayerNormBackward:
      rank_.backend.run(rank_.queue, kernels::LayerNormBackward{
                                         rows(input(0)), rows(input(1)), gamma(), kEpsilon,
                                         rows(call.value), parameters_.gradient(op.parameter),
                                         parameters_.gradient(op.second_parameter)});
      return;
    case OpKind::kMoments: {
      NormState& norm = norms_[static_cast<std::size_t>(op.norm)];
      rank_.backend.run(
          rank_.queue,
          kernels::BatchNormMoments{rows(input(0)), norm.running_mean.span(), norm.sums.span()});
      return;
    }
    case OpKind::kNormSums: {
      // The parameters' gradients get this rank's share; the sum of gradients adds the others'.
      NormState& norm = norms_[static_cast<std::size_t>(op.norm)];
      rank_.backend.run(
          rank_.queue,
          kernels::BatchNormGradientSums{
              rows(input(0)), rows(input(1)), norm.mean.span(), norm.inverse_std.span(),
              norm.sums.span(), parameters_.gradient(op.parameter),
              parameters_.gradient(op.second_parameter), through_of(execution, call)});
      return;
    }
    case OpKind::kNormBackward: {
      const NormState& norm = norms_[static_cast<std::size_t>(op.norm)];
      rank_.backend.run(
          rank_.queue, kernels::BatchNormBackward{rows(input(0)), rows(input(1)), norm.mean.span(),
                                                  norm.inverse_std.span(), gamma(),
                                                  norm.sums.span(), rank_.nodes, rows(call.value)});
      return;
    }
    case OpKind::kLoss:
      execution.loss->compute(rank_, round, rows(input(0)), rows(call.value));
      return;
    case OpKind::kSumGradients:
      return sum_gradients(execution);
    case OpKind::kSumRanks: {
      const Scope& scope = pass.program.scope_of(call.value);
      rank_.reducer.sum(
          norms_[static_cast<std::size_t>(op.norm)].sums.span(),
          scope.direction == Direction::kForward ? "batch norm statistics" : "batch norm gradient",
          scope.layer, round.epoch);
      return;
    }
    case OpKind::kFetchComputed: {
      MatrixView aggregated = whole(pass, input(0));
      aggregated.rows += computed_halo_->rows();
      execution.exchange
          ->begin(computed_halo_->inputs(), aggregated, channel_of(pass, call.value), round)
          ->finish();
      return;
    }
    case OpKind::kTakeComputed:
      // The aggregate before has brought them, without factors: see compute_halo_rows.
      computed_halo_->take(rank_.backend, rank_.queue, whole(pass, input(0)),
                           computed_rows(pass, call.value));
      return;
    case OpKind::kPlaceComputed:
      computed_halo_->place(rank_.backend, rank_.queue, computed_rows(pass, input(0)),
                            whole(pass, input(0)));
      return;
    default:
      ATOLL_ASSERT(false, "{} can't be run alone", to_string(pass.program, call.value));
  }
}

namespace {

// A matrix without gaps between its rows as one row.
MatrixView flat(MatrixView m) {
  ATOLL_ASSERT(m.stride == m.cols);
  return {m.data, 1, m.rows * m.cols, m.rows * m.cols, m.dtype};
}

}  // namespace

ConstMatrixView Network::row_vector(int parameter) { return flat(parameters_.value(parameter)); }

MatrixView Network::row_gradient(int parameter) { return flat(parameters_.gradient(parameter)); }

// Inputs: see Builder::attend and Differentiation.
void Network::run_attention(const Execution& execution, const Call& call) {
  const Pass& pass = execution.pass;
  const Operation& op = pass.program.at(call.value);
  if (op.kind == OpKind::kCoefficients) return;
  const GraphOperators& operators = *operators_.at(op.normalisation);
  const HaloReturn& back = *operators.halo_return();
  const SparseOperator& matrix = operators.forward().matrix;
  const RowRange range = range_of(call.rows);

  const std::size_t first = op.kind == OpKind::kAttend          ? 0
                            : op.kind == OpKind::kAttendTargets ? 2
                            : op.kind == OpKind::kAttendHalo    ? 3
                                                                : 4;
  const auto of_forward = [&](std::size_t i) { return op.inputs[first + i]; };
  const MatrixView z = whole(pass, of_forward(0));
  const ConstMatrixView t = whole(pass, of_forward(1));
  AttentionSpec attention;
  attention.score = op.attention.score;
  attention.heads = op.attention.heads;
  attention.with_self = op.attention.with_self;
  // Edges that have coefficients.
  const auto places = [&](MatrixView of_edges) {
    return of_edges.rows_in({0, rows_.edges + (attention.with_self ? rows_.inner : 0)});
  };
  if (op.parameter >= 0) attention.vector = row_vector(op.parameter);
  if (op.multiplies_edge_features()) {
    attention.edges = {edge_features_.span(),
                       attention.with_self ? mean_edge_features_.span() : std::span<const float>{},
                       parameters_.value(op.second_parameter)};
  }
  if (op.attention.score == AttentionScore::kAdditive) {
    if (op.inputs.size() > first + 4) attention.edge_scores = places(whole(pass, of_forward(4)));
    MatrixView scores = whole(pass, of_forward(3));
    attention.source_scores = scores;
    // Marginal rows come when halo rows are there.
    if (op.kind == OpKind::kAttend && call.rows != Rows::kCentral && z.rows > rows_.inner) {
      const RowRange halo{rows_.inner, z.rows};
      rank_.backend.run(rank_.queue,
                        kernels::HeadDots{z.rows_in(halo), attention.vector, scores.rows_in(halo)});
    }
  }
  attention.dropout = {.key = {rank_.seed, RandomStream::kAttentionDropout,
                               static_cast<std::uint8_t>(op.attention.site),
                               static_cast<std::uint32_t>(execution.round.epoch)},
                       .rate = dropout_threshold(op.attention.dropout),
                       .row_ids = rank_.inner_ids,
                       .col_ids = back.column_ids(),
                       .state = execution.round.state};
  const auto coefficients = [&](Value value) { return places(whole(pass, value)); };
  const auto inner = [&](Value value) { return whole(pass, value).rows_in({0, rows_.inner}); };
  const auto gradient_of = [&](AttentionScore score) {
    return op.attention.score == score ? row_gradient(op.parameter) : MatrixView{};
  };
  switch (op.kind) {
    case OpKind::kAttend:
      rank_.backend.run(rank_.queue,
                        kernels::Attend{matrix, range, z, t, attention, inner(call.value),
                                        epilogue_of(execution, op, call.rows)});
      return;
    case OpKind::kAttendTargets:
      rank_.backend.run(
          rank_.queue, kernels::AttendBackwardTargets{
                           matrix, range, z, t, inner(op.inputs[0]), attention, inner(call.value),
                           coefficients(op.inputs[1]), gradient_of(AttentionScore::kGatv2),
                           op.multiplies_edge_features() ? parameters_.gradient(op.second_parameter)
                                                         : MatrixView{}});
      return;
    case OpKind::kAttendHalo:
      // Only marginal rows have halo rows among their sources.
      if (call.rows == Rows::kCentral || z.rows == rows_.inner) return;
      rank_.backend.run(rank_.queue, kernels::AttendBackwardSources{
                                         matrix,
                                         back.edges(),
                                         {rows_.inner, z.rows},
                                         z,
                                         t,
                                         inner(op.inputs[0]),
                                         coefficients(op.inputs[1]),
                                         attention,
                                         whole(pass, call.value).rows_in({0, rows_.forward_halo}),
                                         gradient_of(AttentionScore::kAdditive)});
      return;
    default:
      rank_.backend.run(
          rank_.queue,
          kernels::AttendBackwardSources{
              matrix, back.edges(), range, z, t, inner(op.inputs[1]), coefficients(op.inputs[2]),
              attention, inner(call.value).rows_in(range), gradient_of(AttentionScore::kAdditive)});
      add_returned_rows(execution, call);
  }
}

// Inputs: see Builder::edge_scores and Differentiation.
void Network::run_edge_scores(const Execution& execution, const Call& call) {
  const Pass& pass = execution.pass;
  const Operation& op = pass.program.at(call.value);
  const MatrixView weight = parameters_.value(op.parameter);
  const bool forward = op.kind == OpKind::kEdgeScores;
  const MatrixView of_edges = whole(pass, forward ? call.value : op.inputs[0]);
  // Of `rows` of the features, whose scores start at row `first`.
  const auto run = [&](ConstMatrixView features, RowRange rows, std::int64_t first) {
    if (rows.size() == 0) return;
    const ConstMatrixView x = features.rows_in(rows);
    const MatrixView scores = of_edges.rows_in({first + rows.begin, first + rows.end});
    if (forward) {
      rank_.backend.run(rank_.queue,
                        kernels::Gemm{Transpose::kNo, x, Transpose::kNo, weight, 0, scores});
      return;
    }
    // The gradients of scores lie behind the coefficients themselves.
    const ConstMatrixView slopes{
        static_cast<const std::byte*>(scores.data) + weight.cols * bytes_of(scores.dtype),
        scores.rows, weight.cols, scores.stride, scores.dtype};
    rank_.backend.run(rank_.queue, kernels::Gemm{Transpose::kYes, x, Transpose::kNo, slopes, 1,
                                                 parameters_.gradient(op.parameter)});
  };
  const RowRange rows = range_of(call.rows);
  const auto first_edge = [&](std::int64_t row) {
    return row == 0 ? 0 : row == rows_.inner ? rows_.edges : central_edges_;
  };
  run(edge_features_.matrix(), {first_edge(rows.begin), first_edge(rows.end)}, 0);
  if (op.attention.with_self) run(mean_edge_features_.matrix(), rows, rows_.edges);
}

// Inputs: see Builder::aggregate_relations and Differentiation.
void Network::run_relations(const Execution& execution, const Call& call) {
  const Pass& pass = execution.pass;
  const Operation& op = pass.program.at(call.value);
  const GraphOperators& operators = *operators_.at(op.normalisation);
  const RelationOperators& relations = *operators.relations();
  const RowRange range = range_of(call.rows);
  const auto inner = [&](Value value) { return whole(pass, value).rows_in({0, rows_.inner}); };
  // Rows of one relation each.
  const auto by_relation = [&](Value value) {
    const MatrixView means = inner(value);
    ATOLL_ASSERT(means.stride == means.cols);
    const std::int64_t columns = means.cols / relations.relations();
    return MatrixView{means.data, means.rows * relations.relations(), columns, columns,
                      means.dtype};
  };
  switch (op.kind) {
    case OpKind::kAggregateRelations:
      rank_.backend.run(rank_.queue, kernels::Spmm{relations.forward(),
                                                   {range.begin * relations.relations(),
                                                    range.end * relations.relations()},
                                                   whole(pass, op.inputs[0]),
                                                   0,
                                                   by_relation(call.value)});
      return;
    case OpKind::kRelationsHalo: {
      // Only marginal rows have halo rows among their sources.
      const RowRange halo{0, rows_.forward_halo};
      if (call.rows == Rows::kCentral || halo.size() == 0) return;
      rank_.backend.run(rank_.queue,
                        kernels::Spmm{relations.halo_backward(), halo, by_relation(op.inputs[0]), 0,
                                      whole(pass, call.value).rows_in(halo)});
      return;
    }
    default:
      rank_.backend.run(rank_.queue,
                        kernels::Spmm{relations.backward(), range, by_relation(op.inputs[1]), 0,
                                      inner(call.value)});
      add_returned_rows(execution, call);
  }
}

// Inputs: see Differentiation::through_pool.
void Network::run_pool(const Execution& execution, const Call& call) {
  const Pass& pass = execution.pass;
  const Operation& op = pass.program.at(call.value);
  const GraphOperators& operators = *operators_.at(op.normalisation);
  const HaloReturn& back = *operators.halo_return();
  const SparseOperator& matrix = operators.forward().matrix;
  const RowRange range = range_of(call.rows);
  const auto inner = [&](Value value) { return whole(pass, value).rows_in({0, rows_.inner}); };
  const MatrixView x = whole(pass, op.kind == OpKind::kPool ? op.inputs[0] : op.inputs.back());
  PoolSpec spec = op.pool;
  if (op.parameter >= 0) spec.trained = parameters_.value(op.parameter).data;
  switch (op.kind) {
    case OpKind::kPool:
      rank_.backend.run(rank_.queue, kernels::Pool{matrix, range, x, spec, inner(call.value)});
      return;
    case OpKind::kPoolSlope:
      rank_.backend.run(rank_.queue, kernels::PoolSlope{matrix, range, x, inner(op.inputs[0]), spec,
                                                        inner(call.value)});
      return;
    case OpKind::kPoolTargets:
      rank_.backend.run(rank_.queue,
                        kernels::PoolBackwardTargets{matrix, range, x, inner(op.inputs[1]),
                                                     inner(op.inputs[0]), spec, inner(call.value)});
      return;
    case OpKind::kPoolHalo: {
      // Only marginal rows have halo rows among their sources.
      const RowRange halo{0, rows_.forward_halo};
      if (call.rows == Rows::kCentral || halo.size() == 0) return;
      rank_.backend.run(rank_.queue,
                        kernels::PoolBackwardSources{matrix,
                                                     back.edges(),
                                                     {rows_.inner, x.rows},
                                                     x,
                                                     inner(op.inputs[1]),
                                                     inner(op.inputs[0]),
                                                     spec,
                                                     whole(pass, call.value).rows_in(halo)});
      return;
    }
    default:
      rank_.backend.run(rank_.queue,
                        kernels::PoolBackwardSources{matrix, back.edges(), range, x,
                                                     inner(op.inputs[2]), inner(op.inputs[1]), spec,
                                                     inner(call.value).rows_in(range)});
      add_returned_rows(execution, call);
  }
}

// To what the sources' half of a gradient has written, what other ranks return.
void Network::add_returned_rows(const Execution& execution, const Call& call) {
  if (call.rows == Rows::kCentral || rows_.returned == 0) return;
  const Pass& pass = execution.pass;
  const Operation& op = pass.program.at(call.value);
  rank_.backend.run(rank_.queue,
                    kernels::Spmm{operators_.at(op.normalisation)->halo_return()->sums(),
                                  range_of(call.rows), whole(pass, op.inputs[0]), 1,
                                  whole(pass, call.value).rows_in({0, rows_.inner})});
}

// Inputs: see Builder::aggregate_edges and Differentiation.
void Network::run_edges(const Execution& execution, const Call& call) {
  const Pass& pass = execution.pass;
  const Operation& op = pass.program.at(call.value);
  const GraphOperators& operators = *operators_.at(op.normalisation);
  const HaloReturn& back = *operators.halo_return();
  const SparseOperator& matrix = operators.forward().matrix;
  const RowRange range = range_of(call.rows);
  const auto inner = [&](Value value) { return whole(pass, value).rows_in({0, rows_.inner}); };
  const MatrixView x = whole(pass, op.inputs[op.inputs.size() - 3]);
  const EdgeTerms terms{edge_features_.span(), parameters_.value(op.parameter),
                        parameters_.value(op.second_parameter)};
  switch (op.kind) {
    case OpKind::kAggregateEdges:
      rank_.backend.run(rank_.queue,
                        kernels::AggregateEdges{matrix, range, x, terms, inner(call.value)});
      return;
    case OpKind::kEdgesTerms:
      rank_.backend.run(rank_.queue, kernels::AggregateEdgesBackwardTerms{
                                         matrix, range, x, terms, inner(op.inputs[0]),
                                         parameters_.gradient(op.parameter),
                                         parameters_.gradient(op.second_parameter)});
      return;
    case OpKind::kEdgesHalo:
      // Only marginal rows have halo rows among their sources.
      if (call.rows == Rows::kCentral || x.rows == rows_.inner) return;
      rank_.backend.run(rank_.queue, kernels::AggregateEdgesBackwardSources{
                                         matrix,
                                         back.edges(),
                                         {rows_.inner, x.rows},
                                         x,
                                         terms,
                                         inner(op.inputs[0]),
                                         whole(pass, call.value).rows_in({0, rows_.forward_halo})});
      return;
    default:
      rank_.backend.run(rank_.queue, kernels::AggregateEdgesBackwardSources{
                                         matrix, back.edges(), range, x, terms, inner(op.inputs[1]),
                                         inner(call.value).rows_in(range)});
      add_returned_rows(execution, call);
  }
}

// Inputs: see Builder::linear_by_type and Differentiation.
void Network::run_by_type(const Execution& execution, const Call& call) {
  const Pass& pass = execution.pass;
  const Operation& op = pass.program.at(call.value);
  const auto inner = [&](Value value) { return whole(pass, value).rows_in({0, rows_.inner}); };
  if (op.kind == OpKind::kSortByType) {
    rank_.backend.run(rank_.queue,
                      kernels::GatherRows{inner(op.inputs[0]),
                                          op.transposed ? type_rows_.places() : type_rows_.sorted(),
                                          {},
                                          inner(call.value)});
    return;
  }
  for (const auto& [type, rows] : type_rows_.blocks()) {
    MatrixView x = inner(op.inputs[0]).rows_in(rows);
    const RowRange of_bias{type, type + 1};
    RowRange of_weight;
    if (op.kind != OpKind::kBiasGradientByType) {
      of_weight = parameters_.block(op.parameter, type);
      x.cols = of_weight.size();  // a type may have fewer columns than others; behind them are 0
    }
    if (op.kind == OpKind::kLinearByType) {
      Epilogue epilogue;
      epilogue.beta = parameters_.value(op.second_parameter).rows_in(of_bias);
      rank_.backend.run(rank_.queue,
                        kernels::Gemm{Transpose::kNo, x, Transpose::kNo,
                                      parameters_.operand(op.parameter).rows_in(of_weight), 0,
                                      inner(call.value).rows_in(rows), epilogue});
    } else if (op.kind == OpKind::kWeightGradientByType) {
      rank_.backend.run(
          rank_.queue,
          kernels::Gemm{Transpose::kYes, x, Transpose::kNo, inner(op.inputs[1]).rows_in(rows), 1,
                        parameters_.gradient(op.parameter).rows_in(of_weight)});
    } else {
      rank_.backend.run(rank_.queue,
                        kernels::ColumnSums{x, /*accumulate=*/true,
                                            parameters_.gradient(op.parameter).rows_in(of_bias)});
    }
  }
}

void Network::run_node_gradient(ConstMatrixView dy, MatrixView gradient) {
  if (dy.dtype == gradient.dtype) {
    rank_.backend.run(rank_.queue, kernels::ApplyEpilogue{dy, {}, gradient});
  } else {
    rank_.backend.run(rank_.queue, kernels::Convert{dy, gradient});
  }
}

// Those of a node's parameters are on the one rank that has them, but their norm is all ranks'.
void Network::sum_gradients(const Execution& execution) {
  const int epoch = execution.round.epoch;
  rank_.reducer.sum(parameters_.shared_gradients(), "gradient all-reduce", epoch);
  const std::span<double> norm =
      execution.optimizer->node_norm(rank_.backend, rank_.queue, parameters_);
  if (!norm.empty()) rank_.reducer.sum(norm, "norm of gradients", -1, epoch);
}

void Network::run_small(const Execution& execution, const Operation& op) {
  switch (op.kind) {
    case OpKind::kStatistics: {
      NormState& norm = norms_[static_cast<std::size_t>(op.norm)];
      rank_.backend.run(rank_.queue, kernels::BatchNormStatistics{
                                         norm.sums.span(), rank_.nodes, kMomentum, kEpsilon,
                                         norm.running_mean.span(), norm.running_variance.span(),
                                         norm.mean.span(), norm.inverse_std.span()});
      return;
    }
    case OpKind::kInverseStd: {
      NormState& norm = norms_[static_cast<std::size_t>(op.norm)];
      rank_.backend.run(rank_.queue, kernels::InverseStd{norm.running_variance.span(), kEpsilon,
                                                         norm.running_inverse_std.span()});
      return;
    }
    case OpKind::kZeroGradients:
      parameters_.zero_gradients(rank_.backend, rank_.queue);
      return;
    case OpKind::kComposedGradients:
      parameters_.add_composed_gradients(rank_.backend, rank_.queue);
      return;
    case OpKind::kStep:
      execution.optimizer->step(rank_.backend, rank_.queue, parameters_, execution.round.state);
      return;
    default:
      ATOLL_ASSERT(false, "{} can't be run alone", traits_of(op.kind).name);
  }
}

// Copies begin when what was queued before has run, and what is queued after the operation that
// finishes them waits for them: queues are ordered by events alone, so that a recording holds them.
void Network::run_copy(const Pass& pass, Value value) {
  const Operation& op = pass.program.at(value);
  if (op.kind == OpKind::kFinishStore || op.kind == OpKind::kFinishFetch) {
    rank_.backend.wait_for(rank_.queue, *copies_);
    return;
  }
  const bool stores = op.kind == OpKind::kStore;
  MatrixView matrix = whole(pass, stores ? op.inputs[0] : value);
  matrix.rows = rows_.copied_by(op);
  const Value stored = stores ? value : op.inputs[0];
  void* const host =
      static_cast<std::byte*>(host_values_.get()) +
      pass.layout.host_offsets[static_cast<std::size_t>(stored)] * bytes_of(options_.dtype);
  const std::int64_t bytes = matrix.rows * matrix.stride * bytes_of(matrix.dtype);
  rank_.backend.wait_for(*copies_, rank_.queue);
  rank_.backend.copy(*copies_, stores ? host : matrix.data, stores ? matrix.data : host, bytes,
                     stores ? CopyKind::kDeviceToHost : CopyKind::kHostToDevice);
}

void Network::run_forward(HaloExchange& exchange, const Round& round) {
  const Pass& pass = round.training || shares_forward_ ? training_ : evaluation_;
  const Execution execution{.pass = pass, .round = round, .exchange = &exchange};
  ran_ = &pass;
  if (!has_constants_) run_blocks(execution, pass.schedule.prologue);
  has_constants_ = true;
  run_blocks(execution, std::span(pass.schedule.blocks).first(pass.schedule.forward_blocks));
}

std::span<const Block> Network::step_blocks() const {
  const std::span<const Block> all = training_.schedule.blocks;
  const auto step = std::ranges::find_if(all, [&](const Block& block) {
    return training_.program.scopes[static_cast<std::size_t>(block.scope)].kind ==
           Scope::Kind::kStep;
  });
  return all.subspan(static_cast<std::size_t>(step - all.begin()));
}

std::span<const Block> Network::backward_blocks() const {
  const std::span<const Block> all = training_.schedule.blocks;
  const std::size_t forward = training_.schedule.forward_blocks;
  return all.subspan(forward, all.size() - forward - step_blocks().size());
}

void Network::run_backward(HaloExchange& exchange, const Round& round, Loss& loss) {
  run_blocks({.pass = training_, .round = round, .exchange = &exchange, .loss = &loss},
             backward_blocks());
}

void Network::run_step(const Round& round, Optimizer& optimizer) {
  run_blocks({.pass = training_, .round = round, .optimizer = &optimizer}, step_blocks());
}

// All bits set is not a number in every type.
void Network::poison(std::int64_t from_byte, std::int64_t bytes) {
  void* const to = static_cast<std::byte*>(block_->view().data) + from_byte;
  if (rank_.backend.host_accessible()) {
    std::memset(to, 0xFF, static_cast<std::size_t>(bytes));
  } else {
    rank_.backend.copy(rank_.queue, to, poison_.get(), bytes, CopyKind::kHostToDevice);
  }
}

void Network::poison_dead(const Pass& pass, const Block& block) {
  if (block.calls.empty()) return;
  const std::vector<int>& begins = pass.schedule.instants;
  const Call& first = block.calls.front();
  const int now = (first.rows == Rows::kComputed ? pass.schedule.computed_instants
                                                 : begins)[static_cast<std::size_t>(first.value)];
  const auto bytes_of_place = [&](Value v) {
    const Place& place = pass.layout.places[static_cast<std::size_t>(v)];
    const std::int64_t elements = place.elements(pass.program, v);
    return std::pair(place.offset * bytes_of(options_.dtype),
                     (place.offset + elements) * bytes_of(options_.dtype));
  };
  const auto has_place = [&](Value v) {
    return !pass.layout.places[static_cast<std::size_t>(v)].is_nowhere();
  };
  for (Value dead = 0; dead < pass.program.size(); ++dead) {
    if (!has_place(dead) || pass.ends[static_cast<std::size_t>(dead)] >= now) continue;
    const auto [from, to] = bytes_of_place(dead);
    bool overlaps = false;
    for (Value v = 0; v < pass.program.size() && !overlaps; ++v) {
      const bool lives = has_place(v) && begins[static_cast<std::size_t>(v)] <= now &&
                         pass.ends[static_cast<std::size_t>(v)] >= now;
      if (!lives) continue;
      const auto [begin, end] = bytes_of_place(v);
      overlaps = begin < to && from < end;
    }
    if (!overlaps) poison(from, to - from);
  }
}

ConstMatrixView Network::logits() const {
  return whole(*ran_, ran_->program.logits).rows_in({0, rows_.inner});
}

ConstMatrixView Network::embeddings() const {
  return whole(*ran_, ran_->program.embeddings).rows_in({0, rows_.inner});
}

}  // namespace atl
