#include "engine/program/rank_state.hpp"

#include <algorithm>

#include "engine/exchange/halo_return.hpp"
#include "engine/exchange/relation_operators.hpp"
#include "engine/program/operations/rules.hpp"
#include "partition/arrival_choice.hpp"

namespace atl {

namespace {

// Means of features over the in-edges of each inner row but those from itself; 0 where it has no
// others.
std::vector<float> means_of_features(const LocalGraphView& graph) {
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

MarginalGroups equal_groups(const LocalGraphView& graph, int count) {
  MarginalGroups groups;
  for (int group = 1; group <= count; ++group) {
    groups.push_back(graph.central + graph.marginal() * group / count);
  }
  return groups;
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

GraphState::GraphState(const Program& training, const NetworkOptions& options, const Rank& rank,
                       const LocalGraphView& graph, ConstMatrixView features_)
    : features(features_) {
  const Recomputation& recomputation = options.recomputation;
  const bool sends =
      graph.parts > 1 && std::ranges::any_of(training.operations, &Operation::needs_messages);
  if (options.covers_messages && sends) covered.emplace(graph, recomputation);
  if (covered && !covered->saves()) covered.reset();
  const LocalGraphView messages = covered ? covered->view() : graph;
  in_edges = messages.forward.csr;
  // All ranks divide packets alike, those that no cover saves messages, too.
  if (sends && orders_rows(options.arrival, options.covers_messages)) {
    groups = marginal_groups(messages);
  } else if (!options.row_groups.empty()) {
    groups = options.row_groups;
  } else if (options.equal_groups > 1) {
    groups = equal_groups(messages, options.equal_groups);
  }
  for (const Operation& op : training.operations) {
    const Normalisation normalisation = op.messages.normalisation;
    if (!op.needs_messages() || operators.contains(normalisation)) continue;
    const auto* relations = std::get_if<Relations>(&op.attributes);
    operators[normalisation] = std::make_unique<GraphOperators>(
        rank.backend, rank.queue, messages, normalisation, recomputation,
        relations == nullptr ? 1 : relations->count, groups);
    if (op.constant) computed_halo = operators[normalisation]->computed_halo();
  }
  const std::int64_t columns = graph.forward.edge_feature_columns;
  if (reads(training, GraphData::kEdgeFeatures)) {
    edge_features = EdgeFeatures(rank, {rank.backend, rank.queue, graph.forward.edge_features},
                                 columns, parameter_dtype(options.dtype));
  }
  if (reads(training, GraphData::kMeanEdgeFeatures)) {
    mean_edge_features = EdgeFeatures(rank, {rank.backend, rank.queue, means_of_features(graph)},
                                      columns, parameter_dtype(options.dtype));
  }
  if (reads(training, GraphData::kNodeTypes)) {
    node_types = {rank.backend, rank.queue,
                  rank.group == nullptr ? graph.node_types
                                        : std::span<const std::uint16_t>(rank.group->of_own_rows(
                                              graph.node_types, graph.central, 1))};
  }
  for (const Operation& op : training.operations) {
    const auto* scale = std::get_if<DegreeScale>(&op.attributes);
    if (scale == nullptr || degree_factors.contains(scale->with_self)) continue;
    degree_factors[scale->with_self] = {rank, graph, scale->with_self};
  }
  const std::int64_t edges = in_edges.nnz();
  shape = {.rows = {.inner = graph.inner(),
                    .forward_halo = messages.forward.outer_rows(),
                    .backward_halo = messages.backward.outer_rows(),
                    .computed = computed_halo != nullptr ? computed_halo->rows() : 0,
                    .returned = graph.forward.halo.sent_rows(),
                    .edges = edges,
                    .forward_sums = messages.forward.sums.rows(),
                    .backward_sums = messages.backward.sums.rows()},
           .marginal = graph.inner() - graph.central,
           .marginal_edges = edges - in_edges.row_ptr[graph.central],
           .weighted = !graph.forward.csr.values.empty()};
  if (rank.group != nullptr) {
    ATOLL_ASSERT(groups.empty(), "{} groups of marginal rows in a shared part", groups.size());
    const auto [central, marginal] = rank.group->own_rows(graph.central, graph.inner());
    shape.divide(central.size(), marginal.size());
  }
  for_each_group(groups, graph.central, [&](std::int64_t begin, std::int64_t end) {
    shape.groups.push_back({{begin, end}, in_edges.row_ptr[end] - in_edges.row_ptr[begin]});
  });
  for (const std::int64_t rows : graph.within) {
    shape.within.push_back({{0, rows}, in_edges.row_ptr[rows]});
  }
}

const DistributedOperator& GraphState::operator_of(const Operation& aggregate) const {
  const GraphOperators& of = *operators.at(aggregate.messages.normalisation);
  if (aggregate.messages.direction == Direction::kBackward) return of.backward();
  return aggregate.decided.fetches_rest ? computed_halo->fetched() : of.forward();
}

RankState::RankState(const Program& training, const NetworkOptions& options, const Rank& rank_,
                     const LocalGraphView& graph_, ConstMatrixView features)
    : rank(rank_),
      dtype(options.dtype),
      graph(std::make_unique<GraphState>(training, options, rank_, graph_, features)),
      share_ids(rank_.group == nullptr
                    ? std::vector<GlobalId>()
                    : rank_.group->of_own_rows(graph_.inner_ids, graph_.central, 1)),
      // Libraries of devices are slow where rows start anywhere; a CPU arranges operands anew.
      own_parameters(std::make_unique<ParameterStore>(
          options.dtype, /*pads_operands=*/!rank_.backend.host_accessible())),
      parameters(*own_parameters),
      own_norms(std::make_unique<std::vector<NormState>>()),
      norms(*own_norms) {
  for (const DeclaredParameter& p : training.parameters) {
    parameters.declare(
        p, rank_.group == nullptr ? graph_.inner_ids : std::span<const GlobalId>(share_ids));
  }
  for (const DeclaredNorm& norm : training.norms) {
    norms.push_back({.name = norm.name, .columns = norm.columns});
  }
}

RankState::RankState(DType dtype_, const Rank& rank_, ParameterStore& parameters_,
                     std::int64_t inner)
    : rank(rank_),
      dtype(dtype_),
      graph(std::make_unique<GraphState>(inner)),
      parameters(parameters_),
      own_norms(std::make_unique<std::vector<NormState>>()),
      norms(*own_norms) {}

RankState::RankState(RankState& other, const Rank& rank_)
    : rank(rank_), dtype(other.dtype), parameters(other.parameters), norms(other.norms) {}

void RankState::allocate() {
  if (own_parameters != nullptr) parameters.allocate(rank.backend, rank.queue, rank.seed);
  if (parameters.has_per_node()) node_parameters = parameters.node_operand();
  for (NormState& norm : norms) {
    for (DeviceArray<double>* array : {&norm.running_mean, &norm.running_variance, &norm.mean,
                                       &norm.inverse_std, &norm.running_inverse_std}) {
      *array = DeviceArray<double>(rank.backend, norm.columns);
    }
    norm.sums = DeviceArray<double>(rank.backend, 2 * norm.columns);
    const auto columns = static_cast<std::size_t>(norm.columns);
    norm.running_mean.upload(rank.backend, rank.queue, std::vector<double>(columns, 0.0));
    norm.running_variance.upload(rank.backend, rank.queue, std::vector<double>(columns, 1.0));
  }
  for (auto& [normalisation, of] : graph->operators) {
    of->connect(rank.backend, rank.queue, rank.between_parts());
  }
}

MatrixView RankViews::whole(Value value) const {
  const Operation& op = program().at(value);
  const Place& place = place_of(value);
  if (!place.is_nowhere()) {
    auto* const start = static_cast<std::byte*>(block_.data);
    return {start + place.offset * bytes_of(dtype()), place.inner + place.halo, op.columns,
            op.stride(), dtype_of(value)};
  }
  // Without halo rows nothing is received into a copy.
  if (op.is(rules::kCopy)) return whole(op.inputs[0]);
  const bool is_features = op.is(rules::kFeatures);
  if (!is_features && !op.is(rules::kNodeParameters)) {
    return {nullptr, 0, op.columns, op.stride(), dtype_of(value)};
  }
  const ConstMatrixView& leaf = is_features ? state_.graph->features : state_.node_parameters;
  // No operation writes it.
  return {const_cast<void*>(leaf.data), leaf.rows, leaf.cols, leaf.stride, leaf.dtype};
}

MatrixView RankViews::computed_rows(Value value) const {
  const Place& place = place_of(value);
  MatrixView view = whole(value);
  view.rows = place.rows();
  return view.rows_in({place.inner + place.halo, place.rows()});
}

NormViews RankViews::norm(int number) const {
  NormState& norm = state_.norms[static_cast<std::size_t>(number)];
  return {norm.running_mean.span(), norm.running_variance.span(),    norm.mean.span(),
          norm.inverse_std.span(),  norm.running_inverse_std.span(), norm.sums.span()};
}

std::span<const GlobalId> RankViews::ids() const {
  if (op().rows_of() == RowsOf::kPairs) return state_.pairs.ids;
  if (call_rows() == Rows::kComputed) return state_.graph->computed_halo->ids();
  return state_.rank.inner_ids.subspan(static_cast<std::size_t>(range().begin),
                                       static_cast<std::size_t>(range().size()));
}

RandomKey RankViews::key(RandomStream stream, int site) const {
  return {state_.rank.seed, stream, static_cast<std::uint8_t>(site),
          static_cast<std::uint32_t>(round_.epoch)};
}

DropoutSpec RankViews::dropout(const Activation& activation) const {
  return {key(activation.stream, activation.site), dropout_threshold(activation.dropout), ids(),
          round_.state};
}

AttentionDropout RankViews::dropout_of_edges(const AttentionOptions& options) const {
  const std::span<const GlobalId> ids = operators().halo_return()->column_ids();
  return {{.key = key(RandomStream::kAttentionDropout, options.site),
           .rate = dropout_threshold(options.dropout),
           .row_ids = ids.first(static_cast<std::size_t>(rows().of_part())),
           .state = round_.state},
          /*col_ids=*/ids,
          op().first_head};
}

SparseOperator RankViews::matrix() const {
  return op().rule->part == Part::kNone ? state_.graph->operator_of(op()).matrix
                                        : operators().forward().matrix;
}

SparseOperator RankViews::relations(Part part) const {
  const RelationOperators& of = *operators().relations();
  return part == Part::kForward ? of.forward()
         : part == Part::kHalo  ? of.halo_backward()
                                : of.backward();
}

EdgeFeatureViews RankViews::edge_features() const {
  const GraphState& graph = *state_.graph;
  return {graph.edge_features.span(), graph.mean_edge_features.span(), graph.edge_features.matrix(),
          graph.mean_edge_features.matrix()};
}

ComputedViews RankViews::computed() const {
  const ComputedHalo& halo = *state_.graph->computed_halo;
  return {halo.halo_rows(), halo.counting(), halo.factors(), halo.ranges()};
}

}  // namespace atl
